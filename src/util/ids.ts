import { randomUUID } from "node:crypto";

/** Chance as an argument: tests pass a counting source. */
export interface IdSource {
  /** A session id: sortable by its UTC second, unique by 48 random bits (`20261130_140501_9f3c2ab01d77`). */
  session(now: number): string;
  /** 122 random bits in 32 hex digits: nonces, tokens. */
  token(): string;
}

export const randomIds: IdSource = {
  session(now) {
    const stamp = new Date(now).toISOString().replace(/[-:]/g, "").replace("T", "_").slice(0, 15);
    return `${stamp}_${randomUUID().slice(-12)}`;
  },
  token: () => randomUUID().replaceAll("-", ""),
};
