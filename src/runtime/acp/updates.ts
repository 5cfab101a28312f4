/** Reads what an agent says of itself. Tolerant: what is not understood is left out, never a failure. */
import type { PermissionOption, PlanEntry, ToolState, TurnResult } from "../runtime.ts";

/** What an update means to a turn. */
export type Said =
  | { readonly type: "text" | "thought"; readonly text: string; readonly usage?: Usage }
  /** A message of a person's, told again. */
  | { readonly type: "echo"; readonly text: string }
  | { readonly type: "tool"; readonly id: string; readonly title?: string; readonly state?: ToolState }
  | { readonly type: "plan"; readonly entries: readonly PlanEntry[] }
  | { readonly type: "context"; readonly used: number; readonly size: number };

export type Usage = NonNullable<TurnResult["usage"]>;

type Fields = Readonly<Record<string, unknown>>;

const TITLE_CHARACTERS = 300;
const PLAN_ENTRIES = 50;

const TOOL_STATES: ReadonlyMap<unknown, ToolState> = new Map([
  ["pending", "pending"],
  ["in_progress", "running"],
  ["completed", "done"],
  ["failed", "failed"],
]);
const PLAN_STATES: ReadonlyMap<unknown, PlanEntry["state"]> = new Map([
  ["pending", "pending"],
  ["in_progress", "running"],
  ["completed", "done"],
]);
const PERMISSION_KINDS: readonly PermissionOption["kind"][] = [
  "allow_once",
  "allow_always",
  "reject_once",
  "reject_always",
];

/** The session an update is of, and the update; null for what is neither. */
export function readUpdate(params: unknown): { readonly sessionId: unknown; readonly update: Fields } | null {
  if (!isFields(params) || !isFields(params.update)) return null;
  return { sessionId: params.sessionId, update: params.update };
}

/** Null for kinds and contents that mean nothing to a turn. */
export function readSaid(update: Fields): Said | null {
  switch (update.sessionUpdate) {
    case "user_message_chunk": {
      const text = textIn(update.content);
      return text === null ? null : { type: "echo", text };
    }
    case "agent_message_chunk":
    case "agent_thought_chunk": {
      const text = textIn(update.content);
      if (text === null) return null;
      const usage = readUsage(metaOf(update).usage);
      const type = update.sessionUpdate === "agent_message_chunk" ? "text" : "thought";
      return { type, text, ...(usage === null ? {} : { usage }) };
    }
    case "tool_call":
    case "tool_call_update": {
      const { toolCallId: id, title, status } = update;
      if (typeof id !== "string") return null;
      const state = TOOL_STATES.get(status) ?? (update.sessionUpdate === "tool_call" ? "pending" : undefined);
      return {
        type: "tool",
        id,
        ...(typeof title === "string" && title !== "" ? { title: bounded(title) } : {}),
        ...(state === undefined ? {} : { state }),
      };
    }
    case "plan": {
      if (!Array.isArray(update.entries)) return null;
      const entries = update.entries.slice(0, PLAN_ENTRIES).flatMap((entry: unknown) => {
        if (!isFields(entry) || typeof entry.content !== "string") return [];
        return [{ text: bounded(entry.content), state: PLAN_STATES.get(entry.status) ?? "pending" }];
      });
      return { type: "plan", entries };
    }
    case "usage_update": {
      const { used, size } = update;
      return isCount(used) && isCount(size) ? { type: "context", used, size } : null;
    }
    default:
      return null;
  }
}

/** Of the answer to a prompt. */
export interface Answered {
  /** Any word: agents have some of their own. */
  readonly stopReason: string;
  readonly usage: Usage | null;
}

export function readAnswer(response: unknown): Answered {
  const fields = isFields(response) ? response : {};
  const { stopReason, usage } = fields;
  const meta = metaOf(fields);
  const quota = isFields(meta.quota) ? meta.quota.token_count : undefined;
  return {
    stopReason: typeof stopReason === "string" ? stopReason : "",
    usage: readUsage(usage) ?? readUsage(meta.usage) ?? readUsage(quota),
  };
}

/** In the words of the protocol and those that agents have had before it. */
export function readUsage(usage: unknown): Usage | null {
  if (!isFields(usage)) return null;
  const first = (...names: string[]): number | undefined => names.map((name) => usage[name]).find(isCount);
  const input = first("inputTokens", "input_tokens", "promptTokens", "prompt_tokens", "promptTokenCount");
  const output = first(
    "outputTokens",
    "output_tokens",
    "completionTokens",
    "completion_tokens",
    "candidatesTokens",
    "candidatesTokenCount",
  );
  const cachedInput = first("cachedReadTokens", "cached_read_tokens", "cachedTokens", "cachedContentTokenCount");
  const cacheWrite = first("cachedWriteTokens", "cached_write_tokens");
  if (input === undefined && output === undefined) return null;
  return {
    input: input ?? 0,
    output: output ?? 0,
    ...(cachedInput === undefined ? {} : { cachedInput }),
    ...(cacheWrite === undefined ? {} : { cacheWrite }),
  };
}

export function sumOf(a: Usage | null, b: Usage): Usage {
  if (a === null) return b;
  const both = (name: "cachedInput" | "cacheWrite"): Partial<Usage> =>
    a[name] === undefined && b[name] === undefined ? {} : { [name]: (a[name] ?? 0) + (b[name] ?? 0) };
  return { input: a.input + b.input, output: a.output + b.output, ...both("cachedInput"), ...both("cacheWrite") };
}

export interface Question {
  readonly sessionId: unknown;
  readonly toolCallId: string;
  readonly title: string | null;
  readonly options: readonly PermissionOption[];
}

export function readQuestion(params: unknown): Question {
  const { sessionId, toolCall, options } = isFields(params) ? params : ({} as Fields);
  const call = isFields(toolCall) ? toolCall : {};
  return {
    sessionId,
    toolCallId: typeof call.toolCallId === "string" ? call.toolCallId : "",
    title: typeof call.title === "string" && call.title !== "" ? bounded(call.title) : null,
    options: (Array.isArray(options) ? options : []).flatMap((option: unknown) => {
      if (!isFields(option)) return [];
      const { optionId: id, name, kind: named } = option;
      const kind = PERMISSION_KINDS.find((known) => known === named);
      if (typeof id !== "string" || kind === undefined) return [];
      return [{ id, label: typeof name === "string" && name !== "" ? bounded(name) : id, kind }];
    }),
  };
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function metaOf(fields: Fields): Fields {
  return isFields(fields._meta) ? fields._meta : {};
}

function textIn(content: unknown): string | null {
  return isFields(content) && content.type === "text" && typeof content.text === "string" ? content.text : null;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

function bounded(text: string): string {
  return text.length <= TITLE_CHARACTERS ? text : `${text.slice(0, TITLE_CHARACTERS - 1).toWellFormed()}…`;
}
