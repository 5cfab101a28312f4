import { join } from "node:path";
import { asTertuliaError } from "../../errors.ts";
import type { EntryRow } from "../../store/rows.ts";
import { systemClock } from "../../util/clock.ts";
import { pause } from "../client.ts";
import { addToHistory, HISTORY_SIZE, readHistory } from "./line-history.ts";
import { type Entered, Screen } from "./screen.ts";
import { SignOfLife } from "./sign-of-life.ts";
import { answerQuestion, attach, type Door, type Talk, untilLeft } from "./talk.ts";

const PAST_ENTRIES = 6;
/** Of a row, besides the text of an entry. */
const PAST_MARGIN = 24;
/** What was typed just before leaving still goes out. */
const LAST_WORDS_MS = 1_000;

/** A person at a terminal. */
export async function converse(talk: Talk): Promise<void> {
  const { config, client, door, flags, isHosted, leaving } = talk;
  const historyFile = join(config.home, "chat-history");
  const past = withoutFault(() => readHistory(historyFile));
  const left = Promise.withResolvers<void>();
  const screen = new Screen({
    input: process.stdin,
    output: process.stdout,
    clock: systemClock,
    history: past ?? [],
    historySize: HISTORY_SIZE,
    // An answer to a question is nothing to say again.
    remembers: (line) => transcript.question === null || line.startsWith("/"),
    onEntered,
    onInterrupt,
    onLeave: left.resolve,
  });
  leaving.signal.addEventListener("abort", () => left.resolve(), { once: true });
  const { transcript, attachment, hearing } = attach(talk, {
    onShown(shown) {
      if (shown.length > 0) sign.seen();
      screen.show(shown);
    },
    onNews: () => sign.look(),
  });
  const sign = new SignOfLife({
    clock: systemClock,
    standing: () => (attachment.isCut ? null : transcript.standing),
    show: (line) => screen.status(line),
  });
  try {
    await untilLeft(
      leaving.signal,
      hearing,
      begin().then(() => left.promise),
    );
    await Promise.race([attachment.sent(), pause(LAST_WORDS_MS, leaving.signal)]);
  } finally {
    sign.end();
    screen.close();
  }
  for (const line of lastLines()) screen.aside(line);

  async function begin(): Promise<void> {
    const { entries } = await attachment.look(PAST_ENTRIES);
    if (isHosted) screen.aside("No gateway was running; this chat runs one until it ends.");
    const count = entries.at(-1)?.seq ?? 0;
    screen.aside(`${door.agent}: ${door.key}, ${count} ${count === 1 ? "entry" : "entries"}, ${client.address}`);
    for (const entry of entries) screen.aside(pastLine(entry, door, process.stdout.columns));
    if (past === undefined) screen.aside(`[${historyFile} cannot be read: lines are not remembered.]`);
    screen.prompt();
    if (flags.new && entries.length > 0) say({ text: "/new", as: "line" });
  }

  function say({ text, as }: Pick<Entered, "text" | "as">): void {
    attachment.send(text, as).catch((cause) => {
      const { message, remedy } = asTertuliaError(cause);
      if (!leaving.signal.aborted) screen.aside(`[${message} ${remedy}]`);
    });
  }

  function onEntered(entered: Entered): void {
    const { text, as, line } = entered;
    if (text.trim() === "") return;
    const { question } = transcript;
    if (as === "words" && (question !== null || text.trimStart().startsWith("/")))
      screen.aside("[Sent as words: a command or an answer is a line that is typed by itself.]");
    if (question !== null && as === "line" && !text.startsWith("/")) {
      answerQuestion(attachment, question, text).catch((cause) => {
        const { message, remedy } = asTertuliaError(cause);
        screen.aside(`[${message} ${remedy}]`);
      });
      return;
    }
    if (as === "line" && /^\/(quit|exit)\s*$/.test(text)) {
      left.resolve();
      return;
    }
    if (past !== undefined && line !== null) withoutFault(() => addToHistory(historyFile, line));
    say(entered);
  }

  /** Stops the turn that works for this door; otherwise it takes back what is typed. */
  function onInterrupt(line: string): void {
    if (attachment.isCut) screen.aside("[The gateway is away. Ctrl-D leaves.]");
    else if (transcript.waiting.length > 0) say({ text: "/stop", as: "line" });
    else if (line !== "") screen.clearLine();
    else screen.aside("[Ctrl-D leaves.]");
  }

  function lastLines(): string[] {
    const lines: string[] = [];
    if (attachment.unsent > 0) lines.push("[What was typed last did not reach the gateway.]");
    if (transcript.waiting.length > 0)
      lines.push(
        isHosted
          ? "[The answer was not complete: it ends with this gateway, and is kept as far as it came.]"
          : "[The agent goes on: its answer will be in the conversation.]",
      );
    return lines;
  }
}

/** One row of an entry, as a reminder. */
function pastLine(entry: EntryRow, { agent, person }: Door, columns: number): string {
  const characters = [...entry.text.replace(/\s+/g, " ").trim()];
  const length = Math.max(columns - PAST_MARGIN, PAST_MARGIN);
  const text = characters.length > length ? `${characters.slice(0, length).join("")}…` : characters.join("");
  const door = entry.platform === null || entry.platform === "console" ? "" : `[${entry.platform}] `;
  const mark = entry.mark === null ? "" : ` (${entry.mark})`;
  return `  ${door}${speaker(entry)}: ${text}${mark}`;

  function speaker({ role, author }: EntryRow): string {
    if (role !== "user") return agent;
    return author === null || author.id === person.id ? "you" : (author.name ?? author.id);
  }
}

/** The lines of earlier days are a convenience: the chat works without them. */
function withoutFault<T>(attempt: () => T): T | undefined {
  try {
    return attempt();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === undefined) throw cause;
    return undefined;
  }
}
