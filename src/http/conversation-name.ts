import { cleanText } from "../message/source.ts";

/** Names of conversations as they stand in headers (K19): what is handed out there is read back as the same name. */

/** By RFC 8187: for a name that would not come through a header as it is. */
const EXTENDED = /^utf-8''/i;

/** A name as its conversation has it. Halves of characters that are different stay different: two names must not be one conversation. */
export function nameOf(given: string): string {
  const halves = given.replace(/\p{Cs}/gu, (half) => `\uFFFD${half.charCodeAt(0).toString(16)}`);
  return cleanText(halves);
}

/** Header bytes arrive as Latin-1; a name sent as UTF-8 is read as such. */
export function readHeader(value: string | undefined): string {
  if (value === undefined) return "";
  const bytes = Buffer.from(value, "latin1");
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return value;
  }
  if (!EXTENDED.test(text)) return text;
  try {
    return decodeURIComponent(text.replace(EXTENDED, ""));
  } catch {
    return text;
  }
}

/** The bytes of a well-formed text, as Latin-1. Spaces at its ends would be cut off on the way, and a header is one line. */
export function writeHeader(text: string): string {
  const isPlain = !/^ | $|[\t\n]/.test(text) && !EXTENDED.test(text);
  return isPlain ? Buffer.from(text, "utf8").toString("latin1") : `UTF-8''${encodeURIComponent(text)}`;
}
