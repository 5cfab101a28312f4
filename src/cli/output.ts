/**
 * Text for a person's terminal: what others wrote cannot move the cursor, set colours, ring, or turn a line around (escape
 * sequences and bidirectional controls are shown, never executed).
 */
export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}

export function output(text: string): void {
  process.stdout.write(`${text}\n`);
}
