import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Posted, type Question, type Shown, Transcript, withoutPartial } from "../channel/console/transcript.ts";
import { ownDoor } from "../channel/own-doors.ts";
import { type Config, loadConfig } from "../config.ts";
import type { Person } from "../conversation/person.ts";
import { buildSessionKey, DEFAULT_KEY_RULES, sessionKeyFor } from "../conversation/session-key.ts";
import { asTertuliaError, type ErrorCode, isErrorCode, TertuliaError } from "../errors.ts";
import type { EntryRow } from "../store/store.ts";
import { Attachment } from "./attachment.ts";
import { type Client, connect, pause, type StreamItem } from "./client.ts";
import { doorOf } from "./door.ts";
import { addToHistory, HISTORY_SIZE, readHistory } from "./line-history.ts";
import { createLog } from "./log.ts";
import { output, printable } from "./output.ts";
import { questionLines, readable, Screen } from "./screen.ts";

const DEFAULT_NAME = "main";
const PAST_ENTRIES = 6;
/** Of a row, besides the text of an entry. */
const PAST_MARGIN = 24;
/** What was typed just before leaving still goes out. */
const LAST_WORDS_MS = 1_000;

export interface ChatFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  /** The name of the conversation at this door (K19). */
  readonly as?: string;
  readonly new?: boolean;
  readonly query?: string;
  readonly json?: boolean;
}

/** `tertulia chat`: the terminal door, at the running gateway or, where none runs, at one of its own for as long as it is open. */
export async function chat(flags: ChatFlags): Promise<void> {
  const config = loadConfig({ flags });
  const leaving = new AbortController();
  const leave = (): void => leaving.abort();
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.once(signal, leave);
  const { client, isHosted, stop } = await reachGateway(config, flags);
  try {
    const door = await doorAt(client, config, flags);
    const talk = { config, client, flags, door, isHosted, leaving };
    if (flags.query !== undefined) await ask(talk, flags.query);
    else if (flags.json !== true && process.stdin.isTTY && process.stdout.isTTY) await converse(talk);
    else await readLines(talk);
  } finally {
    leave();
    for (const signal of ["SIGTERM", "SIGHUP"] as const) process.off(signal, leave);
    await stop();
  }
}

interface Talk {
  readonly config: Config;
  readonly client: Client;
  readonly flags: ChatFlags;
  readonly door: Door;
  /** The gateway ends with this command. */
  readonly isHosted: boolean;
  readonly leaving: AbortController;
}

/** The terminal's door (K19), and the conversation behind it, which is the person's own where `dm_scope` says so (K12). */
interface Door {
  readonly agent: string;
  readonly person: Person;
  readonly chatId: string;
  readonly address: string;
  readonly key: string;
}

async function reachGateway(
  config: Config,
  flags: ChatFlags,
): Promise<{ client: Client; isHosted: boolean; stop: () => Promise<void> }> {
  try {
    return { client: await connect(config), isHosted: false, stop: async () => undefined };
  } catch (cause) {
    if (asTertuliaError(cause).code !== "gateway_down") throw cause;
  }
  const { startGateway } = await import("../start.ts");
  const hosted = loadConfig({ flags: { ...flags, port: 0 } });
  try {
    const running = await startGateway({
      config: hosted,
      log: await createLog(hosted, join(config.home, "gateway.log")),
    });
    return { client: await connect(config), isHosted: true, stop: () => running.stop() };
  } catch (cause) {
    // Somebody else was faster.
    if (asTertuliaError(cause).code !== "gateway_running") throw cause;
    return { client: await connect(config), isHosted: false, stop: async () => undefined };
  }
}

async function doorAt(client: Client, config: Config, flags: ChatFlags): Promise<Door> {
  const { person } = await client.get<{ person: Person }>("/api/whoami");
  const { data } = await client.get<{ data: { id: string }[] }>("/v1/models");
  const agent = flags.agent ?? config.defaultAgent;
  if (!data.some(({ id }) => id === agent))
    throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(agent)}.`, {
      remedy: `Choose one of ${data.map(({ id }) => id).join(", ")}.`,
    });
  const { source, target } = ownDoor("console", person, flags.as ?? DEFAULT_NAME);
  const { chatId } = target;
  const rules = { ...DEFAULT_KEY_RULES, ...config.session };
  return {
    agent,
    person,
    chatId,
    address: buildSessionKey({ form: "chat", agent, platform: "console", chatType: "dm", chatId }),
    key: sessionKeyFor({ agent, source, rules, personId: person.id }).key,
  };
}

interface Front {
  readonly onShown: (shown: readonly Shown[]) => void;
  readonly onHeard?: (item: StreamItem) => void;
  readonly onSent?: (posted: Posted) => void;
}

/** A terminal at its conversation, and what it hears, to its end. */
function attach({ client, door, leaving }: Talk, front: Front) {
  const transcript = new Transcript({ chatId: door.chatId, personId: door.person.id, doorOf });
  const { address, key } = door;
  const attachment = new Attachment({ client, transcript, door: address, key, signal: leaving.signal, ...front });
  return { transcript, attachment, hearing: attachment.run() };
}

// ---- one question, one answer

async function ask(talk: Talk, text: string): Promise<void> {
  const { flags, leaving } = talk;
  const { transcript, attachment, hearing } = attach(talk, {
    onShown: () => undefined,
    onHeard: (item) => item.kind === "cut" && process.stderr.write("[The gateway went away; waiting for it.]\n"),
  });
  let isStopping = false;
  const interrupt = (): void => {
    if (isStopping) {
      process.exitCode = 130;
      leaving.abort();
    }
    isStopping = true;
    attachment.send("/stop").catch((cause) => complain(asTertuliaError(cause)));
  };
  process.on("SIGINT", interrupt);
  try {
    await Promise.race([hearing, answerOne()]);
  } finally {
    process.off("SIGINT", interrupt);
  }

  async function answerOne(): Promise<void> {
    if (flags.new) await attachment.send("/new");
    const posted = await attachment.send(text);
    // There is nobody who could be asked.
    while ((await attachment.settled()) === "asked") await attachment.answer(transcript.question!, null);
    const answer = posted.turn === null ? undefined : transcript.answerOf(posted.turn);
    if (answer !== undefined && answer.state !== "answered")
      throw await problemOf(talk.client, posted, answer.state, answer.reason);
    const reply = answer === undefined ? (posted.reply ?? "") : answer.silent ? "" : answer.text;
    const { session, turn, message, conversation } = posted;
    if (flags.json) outputJson({ text: reply, session, turn, message, conversation, state: "answered" });
    else if (reply !== "") output(readable(reply));
    leaving.abort();
  }
}

/** The sentence that the author of the message got. */
async function problemOf(
  client: Client,
  { message }: Posted,
  state: string,
  reason: string | null,
): Promise<TertuliaError> {
  const { answer } = await client.get<{ answer: { text: string; notices: string[] } | null }>(
    `/api/messages/${message}`,
  );
  const said = answer?.notices.map((notice) => withoutPartial(notice, answer.text)).join(" ") ?? "";
  const error = new TertuliaError(codeOf(state, reason), said || `The message was not answered (${reason ?? state}).`);
  // The sentence names the remedy already.
  return new TertuliaError(error.code, error.message.replace(` ${error.remedy}`, ""), { remedy: error.remedy });
}

function codeOf(state: string, reason: string | null): ErrorCode {
  if (state === "withdrawn") return "turn_withdrawn";
  if (state === "interrupted") return "turn_interrupted";
  if (reason === "timeout") return "turn_timeout";
  return reason !== null && isErrorCode(reason) ? reason : "turn_failed";
}

// ---- lines from a pipe, or for a program

/** Sends line by line, and waits for each answer before the next. */
async function readLines(talk: Talk): Promise<void> {
  const { flags, leaving } = talk;
  const { transcript, attachment, hearing } = attach(talk, flags.json ? jsonFront() : plainFront());
  const interrupt = (): void => leaving.abort();
  process.once("SIGINT", interrupt);
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
  // From here on no line gets lost, however long it takes until the first one is wanted.
  const incoming = lines[Symbol.asyncIterator]();
  leaving.signal.addEventListener("abort", () => lines.close(), { once: true });
  try {
    await Promise.race([hearing, all()]);
  } finally {
    process.off("SIGINT", interrupt);
    lines.close();
  }

  async function all(): Promise<void> {
    if (flags.json) await tellReady(talk, attachment);
    if (flags.new) await line("/new");
    for await (const text of incoming) if (text.trim() !== "") await line(text);
    while ((await attachment.settled()) === "asked") await attachment.answer(transcript.question!, null);
    leaving.abort();
  }

  async function line(text: string): Promise<void> {
    try {
      const { question } = transcript;
      if (question !== null && !text.startsWith("/")) await answerQuestion(attachment, question, text);
      else await reply(await attachment.send(text));
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

/** JSON escapes the control characters below 32 only; terminals obey some of the others too. */
function outputJson(value: object): void {
  output(
    JSON.stringify(value).replace(
      /[\u007f-\u009f]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    ),
  );
}

// ---- a person at a terminal

async function converse(talk: Talk): Promise<void> {
  const { config, client, door, flags, isHosted, leaving } = talk;
  const historyFile = join(config.home, "chat-history");
  const past = withoutFault(() => readHistory(historyFile));
  const left = Promise.withResolvers<void>();
  const screen = new Screen({
    input: process.stdin,
    output: process.stdout,
    history: past ?? [],
    historySize: HISTORY_SIZE,
    // An answer to a question is nothing to say again.
    remembers: (line) => transcript.question === null || line.startsWith("/"),
    onLine,
    onInterrupt,
    onLeave: left.resolve,
  });
  leaving.signal.addEventListener("abort", () => left.resolve(), { once: true });
  const { transcript, attachment, hearing } = attach(talk, { onShown: (shown) => screen.show(shown) });
  try {
    await Promise.race([hearing, begin().then(() => left.promise)]);
    await Promise.race([attachment.sent(), pause(LAST_WORDS_MS, leaving.signal)]);
  } finally {
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
    if (flags.new && entries.length > 0) say("/new");
  }

  function say(text: string): void {
    attachment.send(text).catch((cause) => {
      const { message, remedy } = asTertuliaError(cause);
      if (!leaving.signal.aborted) screen.aside(`[${message} ${remedy}]`);
    });
  }

  function onLine(text: string): void {
    if (text.trim() === "") return;
    const { question } = transcript;
    if (question !== null && !text.startsWith("/")) {
      answerQuestion(attachment, question, text).catch((cause) => {
        const { message, remedy } = asTertuliaError(cause);
        screen.aside(`[${message} ${remedy}]`);
      });
      return;
    }
    if (/^\/(quit|exit)\s*$/.test(text)) {
      left.resolve();
      return;
    }
    if (past !== undefined) withoutFault(() => addToHistory(historyFile, text));
    say(text);
  }

  /** Stops the turn that works for this door; otherwise it takes back what is typed. */
  function onInterrupt(line: string): void {
    if (transcript.waiting.length > 0) say("/stop");
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

/** By its number, or by an option's name. */
async function answerQuestion(attachment: Attachment, question: Question, text: string): Promise<void> {
  const wanted = text.trim().toLowerCase();
  const option =
    question.options[Number(wanted) - 1] ??
    question.options.find(({ id, label }) => [id.toLowerCase(), label.toLowerCase()].includes(wanted));
  if (option === undefined)
    throw new TertuliaError("request_invalid", `${JSON.stringify(text.trim())} is no answer to the question.`, {
      remedy: `Answer with a number from 1 to ${question.options.length}, or stop the turn with /stop.`,
    });
  await attachment.answer(question, option.id);
}

/** One row of an entry, as a reminder. */
function pastLine(entry: EntryRow, { agent, person }: Door, columns: number): string {
  const characters = [...entry.text.replace(/\s+/g, " ").trim()];
  const length = Math.max(columns - PAST_MARGIN, PAST_MARGIN);
  const text = characters.length > length ? `${characters.slice(0, length).join("")}…` : characters.join("");
  const door = entry.platform === null || entry.platform === "console" ? "" : `[${entry.platform}] `;
  const mark = entry.mark === null ? "" : ` (${entry.mark})`;
  return `  ${door}${nameOf(entry)}: ${text}${mark}`;

  function nameOf({ role, author }: EntryRow): string {
    if (role !== "user") return agent;
    return author === null || author.id === person.id ? "you" : (author.name ?? author.id);
  }
}

function complain({ code, message, remedy }: TertuliaError): void {
  process.stderr.write(`${code}: ${printable(message)}\n${printable(remedy)}\n`);
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
