/** Undefined for what is no JSON, such as a page in place of an API: seen by who asked. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
