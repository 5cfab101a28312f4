/**
 * The built-in demo agent: what it answers to what it is given. Deterministic, without I/O, and honest about what it is. Whoever runs it
 * (in process, or as an ACP process) gives it a `DemoStage` and keeps its memory.
 */
import type { HistoryLine, OpenedHow, PermissionOption, Primer, TurnInput } from "../runtime.ts";

const HONEST_LINE = "I am the built-in demo agent; I do not understand language.";

/** More is forgotten, as a model with a small window would; the count goes on. */
const KEPT_LINES = 200;
const HISTORY_LINES = 20;
const LAST_LINES = 2;
const FACT_LINES = 3;
const LINE_LENGTH = 100;
const DEFAULT_WORDS = 10;
const MOST_WORDS = 10_000;
const SLOW_STEP_MS = 100;

const ALLOW: PermissionOption = { id: "allow", label: "Allow", kind: "allow_once" };
const REJECT: PermissionOption = { id: "reject", label: "Reject", kind: "reject_once" };

/** What one session has heard and said so far. */
export class DemoMemory {
  readonly lines: HistoryLine[];
  #total: number;

  constructor(primer: Primer) {
    this.lines = primer.lines.slice(-KEPT_LINES);
    this.#total = primer.total;
  }

  /** Lines there were in all; `lines` holds the last of them. */
  get total(): number {
    return this.#total;
  }

  add(line: HistoryLine): void {
    this.#total++;
    this.lines.push(line);
    if (this.lines.length > KEPT_LINES) this.lines.shift();
  }
}

/** As what the agent speaks. */
export interface DemoSelf {
  readonly sessionId: string;
  readonly how: OpenedHow;
  readonly memory: DemoMemory;
}

/** Where the agent speaks. Once its turn has ended (cancelled, parked), nothing here settles any more: the performance just stops. */
export interface DemoStage {
  say(text: string): Promise<void>;
  tool(title: string, state: "pending" | "running" | "done"): Promise<void>;
  /** Something goes on in the background, or has ended. */
  job(id: string, title: string, state: "open" | "closed"): Promise<void>;
  /** The id of the option chosen, or null. */
  ask(title: string, options: readonly PermissionOption[]): Promise<string | null>;
  /** The one side effect there is; returns how often it has happened. */
  work(): number;
  pause(ms: number): Promise<void>;
  /** From now on further messages are taken in while the turn runs. */
  listen(): void;
  /** Settles when a further message is there. */
  news(): Promise<void>;
  /** What was taken in since the last look. After the `last` look nothing is. */
  meanwhile(look: "more" | "last"): readonly string[];
  /** From now on a cancel is ignored. Never settles. */
  deafen(): Promise<never>;
}

export type DemoEnding = "done" | "refused" | "gone" | "died";

/** Says what there is to say to `input`; the caller has added its missed lines to the memory, but not its text. */
export function performDemo(input: TurnInput, self: DemoSelf, stage: DemoStage): Promise<DemoEnding> {
  const { word, argument } = readWords(input.text);
  const obey = WORDS.get(word);
  if (obey) return obey({ argument, input, self, stage });
  return answer(stage, plainAnswer(input, self));
}

/** Of a usage: the demo's tokens are words. */
export function countWords(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}

interface Order {
  readonly argument: string;
  readonly input: TurnInput;
  readonly self: DemoSelf;
  readonly stage: DemoStage;
}

/** Lower case only: a German sentence that begins with "Die" ends nobody. */
const WORDS: ReadonlyMap<string, (order: Order) => Promise<DemoEnding>> = new Map([
  ["whoami", ({ input, self, stage }) => answer(stage, [HONEST_LINE, ...identityLines(input, self)].join("\n"))],
  ["history", ({ self, stage }) => answer(stage, historyAnswer(self.memory))],
  ["say", ({ argument, stage }) => answer(stage, argument)],
  ["slow", slow],
  ["count", count],
  ["fail", async () => "refused"],
  ["die", async () => "died"],
  ["gone", async () => "gone"],
  ["hang", hang],
  ["stubborn", ({ stage }) => stage.deafen()],
  ["ask", ask],
  ["tool", useTool],
  ["job", job],
]);

async function answer(stage: DemoStage, text: string): Promise<DemoEnding> {
  if (text) await stage.say(text);
  return "done";
}

async function slow({ argument, stage }: Order): Promise<DemoEnding> {
  stage.listen();
  const words = readCount(argument);
  for (let word = 1; word <= words; word++) {
    await stage.say(word === 1 ? "1" : ` ${word}`);
    await stage.pause(SLOW_STEP_MS);
    await mention(stage, word < words ? "more" : "last");
  }
  return "done";
}

async function count({ argument, stage }: Order): Promise<DemoEnding> {
  const words = readCount(argument);
  for (let word = 1; word <= words; word++) await stage.say(word === 1 ? "1" : ` ${word}`);
  return "done";
}

async function hang({ stage }: Order): Promise<DemoEnding> {
  stage.listen();
  for (;;) {
    await stage.news();
    await mention(stage, "more");
  }
}

async function ask({ stage }: Order): Promise<DemoEnding> {
  stage.listen();
  const chosen = await stage.ask("The demo agent asks for nothing in particular.", [ALLOW, REJECT]);
  await stage.say(chosen === null ? "no answer" : `You answered: ${chosen}`);
  await mention(stage, "last");
  return "done";
}

async function useTool({ stage }: Order): Promise<DemoEnding> {
  const title = "Count one up";
  await stage.tool(title, "pending");
  await stage.tool(title, "running");
  const times = stage.work();
  await stage.tool(title, "done");
  return answer(stage, `I counted one up: ${times}`);
}

/** `job NAME` opens one, `job NAME done` closes it. */
async function job({ argument, stage }: Order): Promise<DemoEnding> {
  const [name = "job", word] = argument.split(/\s+/);
  const state = word === "done" ? "closed" : "open";
  await stage.job(name, name, state);
  return answer(stage, `The background job ${name} is ${state}.`);
}

async function mention(stage: DemoStage, look: "more" | "last"): Promise<void> {
  for (const text of stage.meanwhile(look)) await stage.say(` (meanwhile you said: ${text})`);
}

function plainAnswer(input: TurnInput, self: DemoSelf): string {
  const { memory } = self;
  const lines = [HONEST_LINE, ...identityLines(input, self)];
  const last = memory.lines.slice(-LAST_LINES);
  lines.push(`Earlier messages: ${memory.total}${last.length > 0 ? ", the last of them:" : ""}`);
  for (const line of last) lines.push(`  ${historyLine(line)}`);
  lines.push(...factLines(readFacts(input.facts).others));
  lines.push(`You said: ${input.text}`);
  return lines.join("\n");
}

function identityLines(input: TurnInput, self: DemoSelf): string[] {
  return [`Door: ${readFacts(input.facts).door}`, `Session: ${self.sessionId} (${self.how})`];
}

function factLines(facts: readonly string[]): string[] {
  const shown = facts.length > FACT_LINES ? facts.slice(0, FACT_LINES - 1) : facts;
  const lines = shown.map((fact) => `Told: ${oneLine(fact)}`);
  if (shown.length < facts.length) lines.push(`Told: and ${facts.length - shown.length} lines more`);
  return lines;
}

function historyAnswer(memory: DemoMemory): string {
  const shown = memory.lines.slice(-HISTORY_LINES);
  const missing = memory.total - shown.length;
  const head = `Earlier messages: ${memory.total}${missing > 0 ? `, the last ${shown.length}:` : ""}`;
  return [head, ...shown.map(historyLine)].join("\n");
}

const SPEAKERS = { user: "you", assistant: "me", mark: "mark" } as const satisfies Record<HistoryLine["role"], string>;

function historyLine(line: HistoryLine): string {
  return `${SPEAKERS[line.role]}: ${oneLine(line.text)}`;
}

/** The door is in the `Source:` line; what stands around it (one line before, the last one) is the block's delimiters. */
function readFacts(facts: string): { readonly door: string; readonly others: readonly string[] } {
  const lines = facts.split("\n").filter((line) => line.trim() !== "");
  const at = lines.findIndex((line) => line.startsWith("Source:"));
  const source = lines[at];
  if (source === undefined) return { door: "not told", others: lines };
  return { door: source.slice("Source:".length).trim(), others: lines.slice(at + 1, at > 0 ? -1 : undefined) };
}

/** In a room the text begins with the `[name]` of its author (C2), which is no word of theirs, and perhaps with whom it is for. */
function readWords(text: string): { readonly word: string; readonly argument: string } {
  const [, word = "", argument = ""] = /^\s*(?:\[[^\]\n]*\]\s+)?(?:[@＠]\S+\s+)?(\S+)(?:\s+(.*))?$/s.exec(text) ?? [];
  return { word, argument };
}

function readCount(argument: string): number {
  const digits = /^\d+/.exec(argument)?.[0];
  return digits === undefined ? DEFAULT_WORDS : Math.min(Number(digits), MOST_WORDS);
}

function oneLine(text: string): string {
  const flat = text
    .slice(0, 4 * LINE_LENGTH)
    .replace(/\s+/g, " ")
    .trim();
  const isWhole = text.length <= 4 * LINE_LENGTH && flat.length <= LINE_LENGTH;
  return isWhole ? flat : `${[...flat].slice(0, LINE_LENGTH).join("").toWellFormed()}…`;
}
