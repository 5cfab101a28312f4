import { fstatSync } from "node:fs";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { TertuliaError } from "../../errors.ts";
import type { SayKind } from "../../intake/local-doors.ts";
import type { Clock } from "../../util/clock.ts";
import { SAME_TEXT_MS } from "./keyboard.ts";

/** A program that starts another one often gives it a pipe on which nothing ever comes. */
const FIRST_WORDS_MS = 3_000;

interface Stream {
  readonly fd: number;
  readonly isTTY?: boolean;
}

/** Whether something can come there that is not typed: a pipe or a file, and neither a terminal nor /dev/null. */
function isPiped(stream: Stream): boolean {
  if (stream.isTTY) return false;
  try {
    const stat = fstatSync(stream.fd);
    return stat.isFIFO() || stat.isFile() || stat.isSocket();
  } catch (cause) {
    // It was closed.
    if ((cause as NodeJS.ErrnoException).code === "EBADF") return false;
    throw cause;
  }
}

/** All of it, without the line end behind it. */
async function wholeText(input: Readable): Promise<string> {
  return (await text(input)).replace(/[\r\n]+$/, "");
}

/** The same for words that may come beside others: null where nothing has begun to come in time. */
async function textIfAny(input: Readable, clock: Clock): Promise<string | null> {
  const { promise: first, resolve } = Promise.withResolvers<"some" | "none">();
  const begun = (): void => resolve("some");
  input.once("readable", begun).once("end", begun);
  const cancel = clock.after(FIRST_WORDS_MS, () => resolve("none"));
  const what = await first;
  cancel();
  input.off("readable", begun).off("end", begun);
  if (what === "some") return wholeText(input);
  input.destroy();
  return null;
}

export interface Asked {
  readonly text: string;
  readonly as: SayKind;
}

/** `-q` and a pipe are one message: the words, then what came. `-`, or no words: what comes is all. S7: only words alone can be a command. */
export async function askedText(query: string | undefined, { stdin, clock }: Surroundings): Promise<Asked> {
  const isAllOfIt = query === undefined || query === "-";
  const words = isAllOfIt ? "" : query;
  const piped = isAllOfIt ? await wholeText(stdin) : isPiped(stdin) ? await textIfAny(stdin, clock) : "";
  if (piped === null && process.stderr.isTTY)
    process.stderr.write("[Nothing came on standard input: asked without it.]\n");
  const text = [words, piped ?? ""].filter((part) => part.trim() !== "").join("\n\n");
  if (text !== "") return { text, as: text === words && !text.includes("\n") ? "line" : "words" };
  throw new TertuliaError("usage", "There is nothing to say: neither words nor anything on standard input.", {
    remedy: 'Say it with -q "words", or through a pipe: cat file | tertulia chat -q "explain".',
  });
}

interface Surroundings {
  readonly stdin: Readable & Stream;
  readonly clock: Clock;
}

/** Lines as they are typed; those that come together, as a paste does, are one text (S7). */
export async function* typedLines(lines: AsyncIterator<string>, clock: Clock): AsyncGenerator<Asked, void> {
  let next = lines.next();
  for (;;) {
    const first = await next;
    if (first.done) return;
    const together = [first.value];
    next = lines.next();
    for (;;) {
      const quiet = Promise.withResolvers<null>();
      const cancel = clock.after(SAME_TEXT_MS, () => quiet.resolve(null));
      const more = await Promise.race([next, quiet.promise]);
      cancel();
      if (more === null || more.done) break;
      together.push(more.value);
      next = lines.next();
    }
    yield { text: together.join("\n"), as: together.length > 1 ? "words" : "line" };
  }
}
