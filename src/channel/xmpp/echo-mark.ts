import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * The id of a message of ours is its idempotency key and a seal that only this account can set. So an own message is known again
 * in an archive that does not say who spoke, and nobody else's message passes for one.
 */
export interface EchoMark {
  idOf(key: string): string;
  /** The idempotency key of a message of ours; undefined for any other id. */
  keyOf(id: string | undefined): string | undefined;
}

const SEAL_LENGTH = 24;
const SEALED = /^tertulia-[\d-]{1,31}\.[0-9a-f]{24}$/;

/**
 * Whether the id was given by a Tertulia, ours or another's: its author is an agent, and the loop guard has to count it (G5). Whoever
 * imitates it makes himself a bot, which has fewer rights than a person.
 */
export function isOfAgent(id: string | undefined): boolean {
  return id !== undefined && SEALED.test(id);
}

export function createEchoMark(secret: string): EchoMark {
  const sealOf = (key: string): string =>
    createHmac("sha256", `tertulia echo ${secret}`).update(key).digest("hex").slice(0, SEAL_LENGTH);
  return {
    idOf: (key) => `${key}.${sealOf(key)}`,
    keyOf(id = "") {
      const dot = id.length - SEAL_LENGTH - 1;
      if (dot <= 0 || id[dot] !== ".") return undefined;
      const key = id.slice(0, dot);
      return timingSafeEqual(Buffer.from(sealOf(key)), Buffer.from(id.slice(dot + 1), "utf8").subarray(0, SEAL_LENGTH))
        ? key
        : undefined;
    },
  };
}
