const ADVICE =
  /(?:;\s+(?=ask again)|(?<=[.!?"”)])\s+(?=(?:Ask|Try|Send|Check|Correct|Raise|Top|Sign|Choose|Wait|Let|Start|Set|Use|`tertulia)\b))/;

/** A sentence, and what to do, where it says that itself: so no second advice follows it (E3). Nothing of the text is lost. */
export function withAdvice(text: string): { readonly sentence: string; readonly advice?: string } {
  const found = ADVICE.exec(text);
  if (found === null) return { sentence: text };
  const [said, advice] = [text.slice(0, found.index), text.slice(found.index + found[0].length)];
  return {
    sentence: found[0].startsWith(";") ? `${said}.` : said,
    advice: `${advice.charAt(0).toUpperCase()}${advice.slice(1)}`,
  };
}

const LOCAL = /(?:https?:\/\/)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?(?:\/[\w./-]*)?/g;

/** For everybody but the owner: a server of this machine has no address (R5). */
export function withoutLocalAddress(text: string): string {
  return text.replace(LOCAL, "a server on this machine");
}
