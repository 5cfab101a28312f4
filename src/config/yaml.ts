/** What is no YAML, in words of people who never read its specification: what is wrong in a line, and what to write (E3). */

interface YamlError {
  readonly pos: readonly [number, number];
  readonly code: string;
  readonly message: string;
}

/** What matters to braces in a line: texts in quotes, variables, comments, and the braces themselves. */
const PARTS = /(?<=^|[\s[{,:])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|\$\{[^}\s]*\}?|(?<=^|\s)#.*|[[\]{}]/g;

/** Variables inside braces or brackets, without quotes: to YAML their own brace begins a map. */
function bareVariables(text: string): [number, string][] {
  let depth = 0;
  return text.split(/\r?\n/).flatMap((line, index) => {
    const found: [number, string][] = [];
    for (const { 0: part, index: at } of line.matchAll(PARTS)) {
      const isAtStart = /(?:^|[:-]\s+|^\s+)$/.test(line.slice(0, at));
      if (part === "{" || part === "[") depth += depth > 0 || isAtStart ? 1 : 0;
      else if (part === "}" || part === "]") depth = Math.max(0, depth - 1);
      else if (part.startsWith("${") && depth > 0) {
        const isWhole = /[[{,\s]$/.test(line.slice(0, at)) && /^\s*(?:[\]},]|$)/.test(line.slice(at + part.length));
        const fault = isWhole
          ? `${part} inside { } or [ ] wants quotes around it: "${part}"`
          : `a value with ${part} in it, inside { } or [ ], wants quotes around it, and a space before it`;
        found.push([index + 1, fault]);
      }
    }
    return found.slice(0, 1);
  });
}

/** By line, one sentence for each; what follows from the first fault is left out. Nothing of a value is said: it may be a secret. */
export function yamlFaults(
  text: string,
  errors: readonly YamlError[],
  lineAt: (position: number) => number,
): ReadonlyMap<number, string> {
  if (errors.length === 0) return new Map();
  const bare = bareVariables(text);
  const firstBare = bare[0]?.[0] ?? Number.POSITIVE_INFINITY;
  const faults = new Map<number, string>();
  for (const error of errors) {
    const line = lineAt(error.pos[0]);
    // A bare variable puts everything behind it out of order.
    if (line >= firstBare) break;
    if (!faults.has(line)) faults.set(line, sentenceOf(error));
    if (error.code === "UNEXPECTED_TOKEN") break;
  }
  return faults.size === 0 ? new Map(bare) : faults;
}

const NO_PAIR = "this is no `key: value`: a space follows the colon, and keys of one map begin in the same column";

function sentenceOf({ code, message }: YamlError): string {
  switch (code) {
    case "TAB_AS_INDENT":
      return "a tab stands at the beginning of the line; indent it with spaces";
    case "BLOCK_AS_IMPLICIT_KEY":
      return "there are two `: ` in one line, or a value above settings of its own; put a value with a colon in it in quotes";
    case "BAD_INDENT":
      return /^Flow/.test(message)
        ? "a { or a [ is not closed; close it, or indent what belongs to it"
        : "this line begins in another column than its neighbours; indent keys of one map alike";
    case "MISSING_CHAR":
      if (/quote/.test(message)) return "a quote is not closed; close it";
      if (/Comment/.test(message)) return "a # follows a value directly; put a space before the comment";
      return /Missing , or/.test(message) ? "a comma is missing between { } or [ ]; put one in" : NO_PAIR;
    case "MULTILINE_IMPLICIT_KEY":
      return NO_PAIR;
    case "UNEXPECTED_TOKEN":
      return "something follows the value that does not belong to it; put the whole value in quotes";
    case "BAD_SCALAR_START":
      return `a value that begins with ${message.at(-1)} wants quotes around it`;
    case "TAG_RESOLVE_FAILED":
      return "a value that begins with ! wants quotes around it";
    case "BAD_DQ_ESCAPE":
      return "a \\ between double quotes begins an escape; write \\\\, or put the value between single quotes";
    case "MULTIPLE_DOCS":
      return "--- begins a second document; put all settings into one";
    default:
      return "this is no YAML that can be read; compare it with config.example.yaml";
  }
}
