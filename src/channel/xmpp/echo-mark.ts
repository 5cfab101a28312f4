import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * The id of a message of ours is its idempotency key and a seal that only this account can set. So an own message is known again
 * in an archive that does not say who spoke, and nobody else's message passes for one.
 */
export interface EchoMark {
  idOf(key: string, text: string): string;
  /** The idempotency key of a message of ours; undefined for any other id. */
  keyOf(id: string | undefined): string | undefined;
  /** Whether the id was given to these very words: anybody can copy an id, and put his own words under it. */
  isSaid(id: string | undefined, text: string): boolean;
}

/** One half seals the key, the other the words. */
const HALF = 12;
const SEALED = /^tertulia-[\d-]{1,31}\.[0-9a-f]{24}$/;

/**
 * Whether the id was given by a Tertulia, ours or another's: its author is an agent, and the loop guard has to count it (G5). Whoever
 * imitates it makes himself a bot, which has fewer rights than a person.
 */
export function isOfAgent(id: string | undefined): boolean {
  return id !== undefined && SEALED.test(id);
}

export function createEchoMark(secret: string): EchoMark {
  const sealOf = (...parts: readonly string[]): string =>
    createHmac("sha256", `tertulia echo ${secret}`).update(JSON.stringify(parts)).digest("hex").slice(0, HALF);
  // Servers and clients treat white space as they like.
  const textSealOf = (key: string, text: string): string => sealOf(key, text.replace(/\s/gu, ""));
  const keyOf = (id = ""): string | undefined => {
    const dot = id.length - 2 * HALF - 1;
    if (dot <= 0 || id[dot] !== ".") return undefined;
    const key = id.slice(0, dot);
    return isSame(sealOf(key), id.slice(dot + 1, dot + 1 + HALF)) ? key : undefined;
  };
  return {
    idOf: (key, text) => `${key}.${sealOf(key)}${textSealOf(key, text)}`,
    keyOf,
    isSaid(id, text) {
      const key = keyOf(id);
      return key !== undefined && isSame(textSealOf(key, text), id!.slice(-HALF));
    },
  };
}

function isSame(seal: string, found: string): boolean {
  const bytes = Buffer.from(found, "utf8");
  return bytes.length === HALF && timingSafeEqual(Buffer.from(seal), bytes);
}
