import type { Role } from "./person.ts";
import { isAtLeast } from "./person.ts";
import { parseSessionKey } from "./session-key.ts";

/** Who may do what to a conversation (A8). Pure: roles are arguments; the store asks it inside `admit`. */

/** What a command does to the conversation; one that only says something needs no right. */
export type Deed = "stop" | "reset" | "resume" | "undo" | "title" | "bind" | "unbind" | "policy" | "home" | "runtime";

interface Right {
  /** Where several people speak in one session. */
  readonly shared: Role;
  /** Where one person does, or the owner for him. */
  readonly alone: Role;
  /** It ends turns that are open: of nobody who ranks higher. */
  readonly endsTurns: boolean;
}

const RIGHTS: Readonly<Record<Deed, Right>> = {
  stop: { shared: "guest", alone: "guest", endsTurns: true },
  reset: { shared: "member", alone: "guest", endsTurns: true },
  resume: { shared: "member", alone: "guest", endsTurns: true },
  // It waits until no turn is open.
  undo: { shared: "member", alone: "guest", endsTurns: false },
  title: { shared: "member", alone: "guest", endsTurns: false },
  bind: { shared: "member", alone: "guest", endsTurns: false },
  unbind: { shared: "member", alone: "guest", endsTurns: false },
  policy: { shared: "owner", alone: "guest", endsTurns: false },
  home: { shared: "owner", alone: "owner", endsTurns: false },
  runtime: { shared: "owner", alone: "owner", endsTurns: true },
};

/** A reason of the notice `not_done`, or null. `authors`: the roles of those whose turns it would end. */
export function rightFault(
  deed: Deed,
  role: Role,
  { isShared, authors = [] }: { readonly isShared: boolean; readonly authors?: readonly Role[] },
): `${Deed}_forbidden` | "outranked" | null {
  const { shared, alone, endsTurns } = RIGHTS[deed];
  if (!isAtLeast({ role }, { role: isShared ? shared : alone })) return `${deed}_forbidden`;
  const isOutranked = isShared && endsTurns && authors.some((author) => !isAtLeast({ role }, { role: author }));
  return isOutranked ? "outranked" : null;
}

/** Whether several people speak in the session of a conversation: in a room or a thread, unless each has one of their own (K6, K9). */
export function isShared(key: string): boolean {
  const parts = parseSessionKey(key);
  return parts.form === "chat" && parts.chatType !== "dm" && parts.userId === undefined;
}
