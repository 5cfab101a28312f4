/** The agent says it alone when there is nothing to say (O5). */
const SILENCE = "NO_REPLY";

export function isSilence(text: string): boolean {
  return text.trim() === SILENCE;
}

/**
 * Passes words on as soon as they cannot be the agent's silence any more: nobody is shown the token, or a part of it. Null says that nothing
 * more comes.
 */
export function exceptSilence(say: (text: string) => void): (text: string | null) => void {
  let held: string | null = "";
  return (text) => {
    if (held === null) {
      if (text !== null) say(text);
      return;
    }
    held += text ?? "";
    const canBeSilence = text === null ? isSilence(held) : SILENCE.startsWith(held.trim());
    if (canBeSilence || held === "") return;
    say(held);
    held = null;
  };
}
