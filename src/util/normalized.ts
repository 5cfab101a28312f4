/** More marks than that on one letter are no letter of any script. */
const MOST_MARKS = 32;
const MARKS = new RegExp(`(\\p{M}{${MOST_MARKS}})\\p{M}+`, "gu");

/** The text in a Unicode form. The marks of a letter are put in order pair by pair, so a letter with a million of them would take for ever: it keeps the first. */
export function normalized(text: string, form: "NFC" | "NFKC"): string {
  return text.replace(MARKS, "$1").normalize(form);
}
