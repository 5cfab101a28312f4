/** What an agent's errors mean: kind and sentence. Its own words are quoted as a stranger's. */
import { quoteUntrusted } from "../../text/untrusted.ts";
import { describeSpan } from "../../util/span.ts";
import { saysOverflow } from "../overflow.ts";
import type { RuntimeFailure } from "../runtime.ts";
import type { ProcessExit } from "./agent-process.ts";
import type { AcpAgent } from "./presets.ts";

/** The agent's process is gone, or it never came. */
export class AgentGone extends Error {
  readonly failure: RuntimeFailure;
  constructor(failure: RuntimeFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** No answer in time. */
export class AgentSilent extends Error {
  readonly method: string;
  readonly ms: number;
  constructor(method: string, ms: number) {
    super(`no answer to ${method}`);
    this.method = method;
    this.ms = ms;
  }
}

/** It answered what is no answer. */
export class AgentOdd extends Error {}

const RATE =
  /rate[ _-]?limit|too many requests|\b429\b|\b529\b|overloaded|resource[ _]exhausted|quota|usage limit|capacity/i;
const AUTH =
  /auth(?:entication|orization)? (?:required|failed|error)|not (?:authenticated|logged in|signed in)|unauthori[sz]ed|\b401\b|(?:invalid|incorrect|missing|no)\W+(?:\w+\W+)?api[ _-]?key|api[ _-]?key\W+(?:is )?(?:not valid|invalid|missing|expired)|please (?:log|sign) in/i;
const SESSION_LOST =
  /session[^.]{0,120}(?:not found|unknown|not exist|no such|expired|ended|closed|invalid)|(?:unknown|no such|invalid|unrecognized) session|start a new session/i;

const AUTH_REQUIRED = -32000;
const RESOURCE_NOT_FOUND = -32002;
const INVALID_PARAMS = -32602;

interface Refusal {
  readonly code: number;
  readonly said: string;
}

/** What the agent answered instead; null for an error of another kind. */
export function refusalOf(cause: unknown): Refusal | null {
  if (!(cause instanceof Error) || !("code" in cause) || typeof cause.code !== "number") return null;
  const data = "data" in cause && cause.data != null ? ` ${textOf(cause.data)}` : "";
  return { code: cause.code, said: (cause.message + data).slice(0, 2_000) };
}

export function failureOf(cause: unknown, agent: AcpAgent): RuntimeFailure {
  if (cause instanceof AgentGone) return cause.failure;
  if (cause instanceof AgentSilent) {
    return {
      kind: "stalled",
      message: `${agent.title} did not answer (${cause.method}) for ${describeSpan(cause.ms)}.`,
    };
  }
  const refusal = refusalOf(cause);
  if (refusal === null) {
    const words = cause instanceof Error ? cause.message : String(cause);
    return { kind: "protocol", message: `${agent.title} sent what cannot be understood: ${quoteUntrusted(words)}` };
  }
  const { code, said } = refusal;
  if (RATE.test(said)) {
    const retryAfterMs = readRetryAfter(said);
    return {
      kind: "rate-limited",
      message: `${agent.title} takes no more requests for now: ${quoteUntrusted(said)}. Ask again ${
        retryAfterMs === null ? "in a while" : `in ${describeSpan(retryAfterMs)}`
      }.`,
      ...(retryAfterMs === null ? {} : { retryAfterMs }),
    };
  }
  if (saysOverflow(said)) {
    return {
      kind: "overflow",
      message: `The conversation has become too long for ${agent.title}. Ask again: it goes on with the last part of it; or begin anew with /new.`,
    };
  }
  if (code === AUTH_REQUIRED || AUTH.test(said)) {
    return { kind: "auth", message: `${agent.title} is not signed in. ${agent.signIn}` };
  }
  if (code === RESOURCE_NOT_FOUND || code === INVALID_PARAMS || SESSION_LOST.test(said)) {
    return { kind: "session-gone", message: `${agent.title} does not have this session any more. Ask again.` };
  }
  return { kind: "protocol", message: `${agent.title} answered with an error (${code}): ${quoteUntrusted(said)}` };
}

export function diedOf(exit: ProcessExit | null, agent: AcpAgent): RuntimeFailure {
  if (exit?.kind === "unstartable") {
    const reason = exit.code === "ENOENT" ? "is not installed" : `could not be started (${exit.code})`;
    return { kind: "unreachable", message: `${agent.title} ${reason}: there is no \`${agent.command}\`.` };
  }
  const how = exit === null ? "closed the connection" : `ended unexpectedly (${exit.signal ?? `code ${exit.code}`})`;
  return { kind: "process-died", message: `${agent.title} ${how}. Ask again: it is started anew.` };
}

/** The last line of an error output, quoted; empty where there is none. */
export function lastWords(stderr: string, secrets: readonly string[]): string {
  const line = stderr.split("\n").findLast((row) => row.trim() !== "");
  if (line === undefined) return "";
  const masked = secrets
    .filter((secret) => secret.length >= 6)
    .reduce((text, secret) => text.replaceAll(secret, "[secret]"), line);
  return ` It said: ${quoteUntrusted(masked)}`;
}

function readRetryAfter(said: string): number | null {
  const [, count, unit = "s"] =
    /(?:retry|try again|wait)[^\d]{0,20}(\d+(?:\.\d+)?)\s*(ms|s\b|sec|m\b|min)?/i.exec(said) ?? [];
  if (count === undefined) return null;
  const factor = unit === "ms" ? 1 : unit.startsWith("m") ? 60_000 : 1_000;
  return Math.ceil(Number(count) * factor);
}

function textOf(data: unknown): string {
  return typeof data === "string" ? data : (JSON.stringify(data) ?? "");
}
