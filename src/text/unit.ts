/** What a platform counts: UTF-16 units (JavaScript's `length`), code points, or bytes of UTF-8. */
export type Unit = "utf16" | "codepoints" | "bytes";

export interface Limit {
  readonly limit: number;
  readonly unit: Unit;
}

export function lengthIn(text: string, unit: Unit): number {
  switch (unit) {
    case "utf16":
      return text.length;
    case "bytes":
      return Buffer.byteLength(text);
    case "codepoints": {
      let length = 0;
      for (let at = 0; at < text.length; at += unitsOf(text.codePointAt(at)!)) length++;
      return length;
    }
  }
}

/** UTF-16 units of a code point. */
export function unitsOf(code: number): number {
  return code > 0xffff ? 2 : 1;
}

export function widthOf(code: number, unit: Unit): number {
  switch (unit) {
    case "utf16":
      return unitsOf(code);
    case "codepoints":
      return 1;
    case "bytes":
      if (code < 0x80) return 1;
      if (code < 0x800) return 2;
      return code < 0x10000 ? 3 : 4;
  }
}
