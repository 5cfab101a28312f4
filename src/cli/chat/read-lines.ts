import { createInterface } from "node:readline";
import type { Posted, Shown } from "../../channel/console/transcript.ts";
import { asTertuliaError } from "../../errors.ts";
import { systemClock } from "../../util/clock.ts";
import { printable } from "../output.ts";
import type { Attachment } from "./attachment.ts";
import { questionLines, readable } from "./screen.ts";
import { signOnErrors } from "./sign-of-life.ts";
import { type Asked, typedLines } from "./standard-input.ts";
import { answerQuestion, attach, complain, type Front, outputJson, patience, type Talk, untilLeft } from "./talk.ts";

/** Lines of a program, or of a terminal whose output goes elsewhere: sends one by one, and waits for each answer before the next. */
export async function readLines(talk: Talk): Promise<void> {
  const { flags, leaving } = talk;
  const waiting = patience(talk);
  const front = flags.json ? jsonFront() : plainFront();
  let isSpeaking = false;
  const { transcript, attachment, hearing } = attach(talk, {
    ...front,
    onShown(shown) {
      if (shown.length > 0) sign.seen();
      for (const { kind } of shown) if (kind === "text" || kind === "end") isSpeaking = kind === "text";
      front.onShown(shown);
    },
    onNews: () => sign.look(),
    onHeard(item) {
      waiting.heard(item);
      front.onHeard?.(item);
    },
  });
  // On a screen with both, a row of the reply that is not complete would be written over.
  const sign = signOnErrors(() => (process.stdout.isTTY && isSpeaking ? null : transcript.standing));
  const interrupt = (): void => leaving.abort();
  process.once("SIGINT", interrupt);
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
  // From here on no line gets lost, however long it takes until the first one is wanted.
  const incoming = lines[Symbol.asyncIterator]();
  leaving.signal.addEventListener("abort", () => lines.close(), { once: true });
  try {
    await untilLeft(leaving.signal, hearing, all(), waiting.over);
  } finally {
    sign.end();
    waiting.end();
    process.off("SIGINT", interrupt);
    lines.close();
  }

  async function all(): Promise<void> {
    if (flags.json) await tellReady(talk, attachment);
    if (flags.new) await line({ text: "/new", as: "line" });
    const said = process.stdin.isTTY ? typedLines(incoming, systemClock) : eachAlone(incoming);
    for await (const one of said) if (one.text.trim() !== "") await line(one);
    while ((await attachment.settled()) === "asked") await attachment.answer(transcript.ownQuestion!, null);
    leaving.abort();
  }

  async function line({ text, as }: Asked): Promise<void> {
    try {
      const { ownQuestion: question } = transcript;
      if (question !== null && as === "line" && !text.startsWith("/")) await answerQuestion(attachment, question, text);
      else await reply(await attachment.send(text, as));
    } catch (cause) {
      leaving.signal.throwIfAborted();
      const error = asTertuliaError(cause);
      process.exitCode = error.exitCode;
      if (flags.json) outputJson({ event: "error", error });
      else complain(error);
    }
    await attachment.settled();
  }

  async function reply({ turn }: Posted): Promise<void> {
    await attachment.settled();
    const answer = turn === null ? undefined : transcript.answerOf(turn);
    if (answer !== undefined && answer.state !== "answered") process.exitCode = 1;
  }
}

async function* eachAlone(lines: AsyncIterable<string>): AsyncGenerator<Asked, void> {
  for await (const text of lines) yield { text, as: "line" };
}

/** Replies on standard output, everything else on standard error. */
function plainFront(): Front {
  let isElsewhere = false;
  let isRowOpen = false;
  const write = (text: string): void => {
    process.stdout.write(readable(text));
    isRowOpen = !text.endsWith("\n");
  };
  return {
    onShown(shown) {
      for (const one of shown) {
        if (one.kind === "reply") isElsewhere = one.door !== null;
        else if (one.kind === "text" && !isElsewhere) write(one.text);
        else if (one.kind === "end" && isRowOpen) write("\n");
        else if (one.kind === "answer") write(`${one.text}\n`);
        else tellProblems([one]);
      }
    },
  };
}

/** What is neither a reply nor somebody's words goes to standard error. */
function tellProblems(shown: readonly Shown[]): void {
  for (const one of shown) {
    if (one.kind === "notice") process.stderr.write(`[${printable(one.text)}]\n`);
    if (one.kind === "question") process.stderr.write(`${questionLines(one.question).map(printable).join("\n")}\n`);
  }
}

function jsonFront(): Front {
  return {
    onShown: () => undefined,
    onHeard(item) {
      if (item.kind === "event") outputJson({ event: item.event.name, ...item.event.payload });
      else outputJson({ ...item, event: `stream:${item.kind}`, kind: undefined });
    },
    onSent: (posted) => outputJson({ event: "sent", ...posted }),
  };
}

async function tellReady({ client, door }: Talk, attachment: Attachment): Promise<void> {
  const { sessionId, entries } = await attachment.look(1);
  outputJson({
    event: "ready",
    agent: door.agent,
    conversation: door.key,
    session: sessionId,
    entries: entries.at(-1)?.seq ?? 0,
    gateway: client.address,
  });
}
