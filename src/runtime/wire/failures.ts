/**
 * What can go wrong between us and a model server, in one table: what it counts as, whether it is tried again, and the sentence with what
 * to do next. Keys never stand in a sentence.
 */
import { quoteUntrusted } from "../../text/untrusted.ts";
import { isRecord } from "../../util/is-record.ts";
import { describeSpan } from "../../util/span.ts";
import { tooMuch, type Uttered } from "../allowance.ts";
import { saysOverflow } from "../overflow.ts";
import type { RuntimeFailure } from "../runtime.ts";

/** What happened, as it was seen. */
export type Trouble =
  | { readonly type: "connect"; readonly code: string }
  | {
      readonly type: "status";
      readonly status: number;
      readonly said: ServerError;
      readonly retryAfterMs: number | null;
    }
  | { readonly type: "redirect"; readonly to: string }
  | { readonly type: "silence"; readonly ms: number }
  | { readonly type: "cut" }
  | { readonly type: "no-stream"; readonly contentType: string }
  | { readonly type: "garbled" }
  | { readonly type: "tool-call"; readonly tool: string }
  | { readonly type: "filtered" }
  | { readonly type: "too-much"; readonly uttered: Uttered }
  | { readonly type: "no-room" };

/** What the server said about it. */
export interface ServerError {
  /** Its code, type and status, for recognising. */
  readonly code: string;
  /** For a person; may be empty. */
  readonly message: string;
}

export type TroubleName =
  | "unreachable"
  | "untrusted"
  | "redirected"
  | "key-refused"
  | "no-credit"
  | "rate-limited"
  | "server-busy"
  | "overflow"
  | "model-unknown"
  | "path-unknown"
  | "content-refused"
  | "request-refused"
  | "silent"
  | "cut"
  | "no-stream"
  | "garbled"
  | "tool-call"
  | "no-room"
  | "too-much";

/** What a sentence may name. */
export interface Scene {
  /** Host and port. */
  readonly where: string;
  readonly model: string;
  /** There may be a proxy on the way. */
  readonly isProxied?: boolean;
  /** The server is on this machine: which program it probably is. */
  readonly localProgram: string | null;
  /** Takes secrets out of a text of the server's. */
  readonly mask: (text: string) => string;
}

interface Rule {
  readonly kind: RuntimeFailure["kind"];
  /** Only ever while no text was shown. `shorter`: at once, with less history. */
  readonly again: "never" | "later" | "shorter";
  readonly sentence: (scene: Scene, trouble: Trouble) => string;
}

const RULES: Record<TroubleName, Rule> = {
  unreachable: {
    kind: "unreachable",
    again: "later",
    sentence: (scene, trouble) => unreachableSentence(scene, trouble),
  },
  untrusted: {
    kind: "unreachable",
    again: "never",
    sentence: ({ where }, trouble) =>
      `${where} has no certificate this machine trusts (${codeIn(trouble)}). Correct it there, or name its authority in NODE_EXTRA_CA_CERTS.`,
  },
  redirected: {
    kind: "unreachable",
    again: "never",
    sentence: ({ where }, trouble) =>
      `${where} sends elsewhere${trouble.type === "redirect" && trouble.to !== "" ? `, to ${quoteUntrusted(trouble.to)}` : ""}. Correct base_url: the key is not carried along.`,
  },
  "key-refused": {
    kind: "auth",
    again: "never",
    sentence: ({ where, model }) =>
      `${where} refuses the key, or the key may not use the model ${model}. Check the variable the key comes from.`,
  },
  "no-credit": {
    kind: "auth",
    again: "never",
    sentence: ({ where }) => `The account at ${where} has no credit left. Top it up there, or choose another model.`,
  },
  "rate-limited": {
    kind: "rate-limited",
    again: "later",
    sentence: ({ where }, trouble) => `${where} takes no more requests for now. Ask again ${whenIn(trouble)}.`,
  },
  "server-busy": {
    kind: "unreachable",
    again: "later",
    sentence: (scene, trouble) =>
      `${scene.where} cannot answer at the moment (${statusIn(trouble)})${saidIn(scene, trouble)}. Ask again in a while.`,
  },
  overflow: {
    kind: "overflow",
    again: "shorter",
    sentence: ({ model }) =>
      `The conversation is too long for ${model}, also with its oldest part left out. Send less at once, begin anew with /new, or correct \`window\`.`,
  },
  "model-unknown": {
    kind: "refused",
    again: "never",
    sentence: (scene, trouble) =>
      `${scene.where} does not have the model ${scene.model}${saidIn(scene, trouble)}. \`tertulia doctor\` shows the names it has.`,
  },
  "path-unknown": {
    kind: "unreachable",
    again: "never",
    sentence: ({ where }, trouble) =>
      `There are no chat completions at this address of ${where} (${statusIn(trouble)}). Check base_url: it mostly ends in /v1.`,
  },
  "content-refused": {
    kind: "refused",
    again: "never",
    sentence: ({ where }) => `${where} stopped the answer: its content filter objects. Ask in other words.`,
  },
  "request-refused": {
    kind: "protocol",
    again: "never",
    sentence: (scene, trouble) =>
      `${scene.where} refuses the request (${statusIn(trouble)})${saidIn(scene, trouble)}. Correct the runtime's settings; if they are right, begin anew with /new.`,
  },
  silent: {
    kind: "stalled",
    again: "never",
    sentence: ({ where }, trouble) =>
      `${where} sent nothing for ${trouble.type === "silence" ? describeSpan(trouble.ms) : "too long"}. Ask again, or raise \`idle_timeout\` if the model needs longer.`,
  },
  cut: {
    kind: "truncated",
    again: "never",
    sentence: ({ where }) => `The connection to ${where} ended before the answer did. Ask again.`,
  },
  "no-stream": {
    kind: "protocol",
    again: "never",
    sentence: ({ where }, trouble) =>
      `${where} answered with ${trouble.type === "no-stream" ? quoteUntrusted(trouble.contentType) : "something else"} instead of an event stream. Check base_url: it mostly ends in /v1.`,
  },
  garbled: {
    kind: "protocol",
    again: "never",
    sentence: ({ where }) =>
      `${where} sent something that is no chat completion. Check base_url, and whether a proxy stands between.`,
  },
  "tool-call": {
    kind: "protocol",
    again: "never",
    sentence: ({ model }, trouble) =>
      `${model} wanted to use a tool${trouble.type === "tool-call" && trouble.tool !== "" ? ` (${quoteUntrusted(trouble.tool)})` : ""}, but it was given none. Nothing was run. Ask in other words, or choose a model that answers without tools.`,
  },
  "no-room": {
    kind: "truncated",
    again: "never",
    sentence: ({ model }) =>
      `${model} used up its limit of output before it said a word. Raise \`max_output\`, or let it think less.`,
  },
  "too-much": {
    kind: "truncated",
    again: "never",
    sentence: ({ model }, trouble) => tooMuch(model, trouble.type === "too-much" ? trouble.uttered : "said").message,
  },
};

/** Further tries, and how long before each. */
const BACK_OFF_MS: readonly number[] = [1_000, 4_000];
/** A server that wants a longer wait is not waited for: the turn fails with that time in it. */
const LONGEST_WAIT_MS = 60_000;

export function failureOf(trouble: Trouble, scene: Scene): RuntimeFailure {
  const { kind, sentence } = RULES[nameOf(trouble)];
  const retryAfterMs = trouble.type === "status" ? trouble.retryAfterMs : null;
  return { kind, message: sentence(scene, trouble), ...(retryAfterMs === null ? {} : { retryAfterMs }) };
}

/** Whether the request is to be made shorter and sent again. */
export function isOverflow(trouble: Trouble): boolean {
  return RULES[nameOf(trouble)].again === "shorter";
}

/** How long before the next try; null when there is to be none. `chance` spreads those who were refused together. */
export function waitBeforeRetry(trouble: Trouble, retries: number, chance: () => number): number | null {
  const backOff = BACK_OFF_MS[retries];
  if (backOff === undefined || RULES[nameOf(trouble)].again !== "later") return null;
  const asked = trouble.type === "status" ? (trouble.retryAfterMs ?? 0) : 0;
  if (asked > LONGEST_WAIT_MS) return null;
  return Math.max(asked, Math.round(backOff * (0.75 + chance() / 2)));
}

export function nameOf(trouble: Trouble): TroubleName {
  switch (trouble.type) {
    case "connect":
      return /CERT|SIGNED|ISSUER|ALTNAME|CRL/.test(trouble.code) ? "untrusted" : "unreachable";
    case "status":
      return nameOfStatus(trouble.status, trouble.said);
    case "redirect":
      return "redirected";
    case "silence":
      return "silent";
    case "filtered":
      return "content-refused";
    default:
      return trouble.type;
  }
}

const NO_CREDIT = /insufficient[_ ](?:quota|balance|credit)|billing|exceeded your current quota|payment/i;
const WRONG_KEY =
  /(?:invalid|incorrect|missing|wrong|no)\W+api[ _-]?key|api[ _-]?key\W+(?:is )?(?:not valid|invalid|missing|expired)/i;
const NO_MODEL =
  /model_not_found|model[^.]{0,80}(?:not found|not exist|no such|unknown|not a valid)|(?:invalid|unknown|no such) model|not a valid model/i;
const FILTERED = /content[_ ](?:filter|policy|management)|data_inspection_failed|safety/i;

/** The first that matches. */
const BY_STATUS: readonly (readonly [from: number, to: number, said: Pick<RegExp, "test">, TroubleName])[] = [
  [300, 399, /^/, "redirected"],
  // COMPAT: llama.cpp and proxies call it an error of the server's own.
  [400, 599, { test: saysOverflow }, "overflow"],
  [413, 413, /^/, "overflow"],
  [400, 403, WRONG_KEY, "key-refused"],
  [402, 402, /^/, "no-credit"],
  [403, 429, NO_CREDIT, "no-credit"],
  [429, 429, /^/, "rate-limited"],
  [400, 404, NO_MODEL, "model-unknown"],
  [400, 403, FILTERED, "content-refused"],
  [401, 401, /^/, "key-refused"],
  [403, 403, /^/, "key-refused"],
  [404, 405, /^/, "path-unknown"],
  [408, 408, /^/, "server-busy"],
  [425, 425, /^/, "server-busy"],
  [500, 599, /^/, "server-busy"],
];

function nameOfStatus(status: number, { code, message }: ServerError): TroubleName {
  const said = `${code} ${message}`;
  const match = BY_STATUS.find(([from, to, pattern]) => status >= from && status <= to && pattern.test(said));
  return match?.[3] ?? "request-refused";
}

function unreachableSentence({ where, localProgram, isProxied = false }: Scene, trouble: Trouble): string {
  const code = codeIn(trouble);
  const proxy = "the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY choose";
  if (isProxied) return `${where} cannot be reached (${code}). Check base_url, the network, and ${proxy}.`;
  if (code === "BAD_PORT")
    return `The port in ${where} is one that is not asked by rule. Let the server listen on another.`;
  if (/ENOTFOUND|EAI_AGAIN/.test(code)) return `The name in ${where} cannot be found. Check base_url and the network.`;
  if (/SSL|EPROTO|TLS/.test(code)) return `${where} does not speak https. Write http:// in base_url if that is meant.`;
  if (localProgram === null) return `${where} cannot be reached (${code}). Check base_url and the network.`;
  return `Nothing answers at ${where} (${code}). Is ${localProgram} running?`;
}

function codeIn(trouble: Trouble): string {
  return trouble.type === "connect" ? trouble.code : "no code";
}

function statusIn(trouble: Trouble): string {
  return trouble.type === "status" ? `status ${trouble.status}` : "no status";
}

function whenIn(trouble: Trouble): string {
  const ms = trouble.type === "status" ? trouble.retryAfterMs : null;
  return ms === null ? "in a while" : `in ${describeSpan(ms)}`;
}

/** The server's own sentence; a stranger's words. */
function saidIn({ mask }: Scene, trouble: Trouble): string {
  if (trouble.type !== "status" || trouble.said.message === "") return "";
  return `: ${quoteUntrusted(mask(trouble.said.message))}`;
}

/** What looks like a key is one, also where it is not ours. */
const KEY_FORM = /\b(?:sk|pk|gsk|xai|key|hf)[-_][\w*-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+/gi;

export function createMask(secrets: readonly string[]): (text: string) => string {
  const known = secrets.filter((secret) => secret.length >= 4);
  return (text) =>
    known.reduce((masked, secret) => masked.replaceAll(secret, "[secret]"), text).replace(KEY_FORM, "[secret]");
}

type Fields = Readonly<Record<string, unknown>>;

const CODES = ["code", "type", "status", "status_code", "error_code", "error_type"];
const MESSAGES = ["message", "error_message", "error_msg", "detail", "msg", "status_msg", "description", "reason"];
/** Codes that servers give with what is no error. */
const GOOD = /^(?:|0|2\d\d|ok|success)$/i;

/** An error body in any of the forms servers have; one of another form says nothing. */
export function readServerError(body: unknown): ServerError {
  const fields = fieldsOf(body);
  return errorWithin(fields) ?? plainError(fields);
}

/** The error that an event of a stream holds in place of an answer, however it is written there. */
export function errorIn(body: unknown): ServerError | null {
  const fields = fieldsOf(body);
  const within = errorWithin(fields);
  if (within !== null || hasChoices(fields)) return within;
  const { success, ok, code } = fields;
  const isCalledSo = ["object", "type", "status", "result"].some((name) => /^error$/i.test(String(fields[name])));
  const isFlat = Object.entries(fields).some(([name, value]) => /^error(?:_|$)/.test(name) && isFault(value));
  const hasStatus = ["status", "status_code"].some((name) => /^[45]\d\d$/.test(String(fields[name])));
  const plain = plainError(fields);
  const hasCode = isFault(code) && plain.message !== "";
  return isCalledSo || isFlat || success === false || ok === false || hasStatus || hasCode ? plain : null;
}

function isFault(value: unknown): boolean {
  return value === true || ((typeof value === "string" || typeof value === "number") && !GOOD.test(String(value)));
}

/** Words beside the answer: the reason, if no answer comes. */
export function remarkIn(body: unknown): ServerError | null {
  const fields = fieldsOf(body);
  const said = hasChoices(fields) ? null : plainError(fields);
  return said?.message ? said : null;
}

/** Under `error`, in a list of them, or in the first choice. COMPAT: MiniMax says under `base_resp` how it went, good or bad. */
function errorWithin(fields: Fields): ServerError | null {
  const { error, errors, choices, base_resp: outcome } = fields;
  const inChoice = Array.isArray(choices) ? fieldsOf(choices[0]).error : undefined;
  const failed = isFault(fieldsOf(outcome).status_code) ? outcome : undefined;
  for (const place of [error, errors, failed, inChoice]) {
    const held: unknown = Array.isArray(place) ? place[0] : place;
    if (typeof held === "string" && held !== "") return { code: codesIn(fields), message: held };
    if (!isRecord(held) || Object.keys(held).length === 0) continue;
    const inner = errorWithin(fieldsOf(held)) ?? plainError(fieldsOf(held));
    return { ...inner, code: [inner.code, codesIn(fields)].filter((code) => code !== "").join(" ") };
  }
  return null;
}

function plainError(fields: Fields): ServerError {
  const [message = ""] = MESSAGES.map((name) => textIn(fields[name])).filter((text) => text !== "");
  // COMPAT: what OpenRouter's provider said stands there, and only there is the reason.
  const raw = textIn(fieldsOf(fields.metadata).raw);
  return { code: [codesIn(fields), raw].filter((part) => part !== "").join(" "), message };
}

function codesIn(fields: Fields): string {
  const codes = CODES.map((name) => fields[name]);
  return codes.filter((code) => typeof code === "string" || typeof code === "number").join(" ");
}

/** COMPAT: FastAPI gives a list of what is wrong. */
function textIn(value: unknown): string {
  if (Array.isArray(value)) return textIn(fieldsOf(value).msg);
  return typeof value === "string" ? value : "";
}

function hasChoices({ choices }: Fields): boolean {
  return Array.isArray(choices) && choices.length > 0;
}

/** By their names in one form: `errorMessage` is `error_message`. COMPAT: Google's endpoint wraps the object in a list. */
function fieldsOf(body: unknown): Fields {
  const value: unknown = Array.isArray(body) ? body[0] : body;
  if (!isRecord(value)) return {};
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name.replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase(), field]),
  );
}

/** `retry-after-ms`, or `retry-after` in seconds or as a date. */
export function readRetryAfter(headers: Headers, now: number): number | null {
  const ms = headers.get("retry-after-ms");
  if (ms !== null && /^\d+(?:\.\d+)?$/.test(ms)) return Math.ceil(Number(ms));
  const after = headers.get("retry-after");
  if (after === null) return null;
  if (/^\d+(?:\.\d+)?$/.test(after)) return Math.ceil(Number(after) * 1_000);
  const at = Date.parse(after);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
