import { TertuliaError } from "../errors.ts";

/** `--owner telegram:42`: whose direct chats in a state.db of Hermes are the owner's (D9). */
export function ownersIn({ owner = [] }: { readonly owner?: readonly string[] }): readonly string[] {
  for (const one of owner) {
    if (!/^[\w-]+:.+$/.test(one))
      throw new TertuliaError(
        "usage",
        `--owner ${one} is not allowed; allowed: a platform and an id, as in telegram:42.`,
      );
  }
  return owner;
}
