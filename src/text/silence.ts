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
  const held: string[] = [];
  /** Letters of the token so far; null once the words are others. */
  let matched: number | null = 0;
  return (text) => {
    if (matched === null) {
      if (text !== null) say(text);
      return;
    }
    if (text !== null) {
      held.push(text);
      matched = matchedBy(text, matched);
    }
    const isUnfinished = text === null && matched !== SILENCE.length;
    if (matched !== null && !isUnfinished) return;
    matched = null;
    const words = held.splice(0).join("");
    if (words !== "") say(words);
  };
}

/** White space may stand around the token. */
function matchedBy(text: string, before: number): number | null {
  let matched = before;
  for (const letter of text) {
    const isAround = matched === 0 || matched === SILENCE.length;
    if (isAround && letter.trim() === "") continue;
    if (letter !== SILENCE[matched]) return null;
    matched += 1;
  }
  return matched;
}
