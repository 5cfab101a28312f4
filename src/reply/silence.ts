/** The agent says it alone when there is nothing to say (O5). */
const SILENCE = "NO_REPLY";

export function isSilence(text: string): boolean {
  return text.trim() === SILENCE;
}

/** Passes words on as soon as they cannot be the agent's silence any more: nobody is shown the token, or a part of it. */
export function exceptSilence(say: (text: string) => void): (text: string) => void {
  let held: string | null = "";
  return (text) => {
    if (held === null) {
      say(text);
      return;
    }
    held += text;
    if (SILENCE.startsWith(held.trim())) return;
    say(held);
    held = null;
  };
}
