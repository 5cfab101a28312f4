import { isRecord } from "../util/is-record.ts";

/** B6: what is kept with a conversation, in the form that other programs read it. */

export interface AgentState {
  /** What runs it now. */
  readonly runtime: string;
  readonly runtime_state: Readonly<Record<string, RuntimeStateView>>;
  readonly [foreign: string]: unknown;
}

export interface RuntimeStateView {
  /** By what the runtime itself knows the session; null where it has none. */
  readonly session_id: string | null;
  /** ISO 8601, UTC; null before the first use. */
  readonly last_used_at: string | null;
  readonly restart_count: number;
  readonly status: "healthy" | "degraded" | "broken";
  /** The entry of the session's transcript up to which it was told. */
  readonly seen_through: number;
}

/** As it stands in the store; null for what is no JSON object: another program may have written there. */
export function readAgentState(text: string | null): Readonly<Record<string, unknown>> | null {
  try {
    const kept: unknown = JSON.parse(text ?? "{}");
    return isRecord(kept) ? kept : null;
  } catch (cause) {
    if (cause instanceof SyntaxError) return null;
    throw cause;
  }
}

const UNREADABLE =
  "What other programs keep with this conversation is no JSON object and is left out; the next PATCH begins it anew.";

/** Ours over theirs, key by key: a key that is not ours is kept, at every depth. */
export function agentStateOf(
  kept: Readonly<Record<string, unknown>> | null,
  now: {
    readonly runtime: string;
    readonly states: readonly {
      readonly runtime: string;
      readonly ref: string | null;
      readonly lastUsedAt: number | null;
      readonly restarts: number;
      readonly status: RuntimeStateView["status"];
      readonly seenThrough: number;
    }[];
  },
): AgentState {
  const names = new Set([now.runtime, ...now.states.map(({ runtime }) => runtime)]);
  const views = now.states.map((state): [string, RuntimeStateView] => [
    shortName(state.runtime, names),
    {
      session_id: state.ref,
      last_used_at: state.lastUsedAt === null ? null : new Date(state.lastUsedAt).toISOString(),
      restart_count: state.restarts,
      status: state.status,
      seen_through: state.seenThrough,
    },
  ]);
  const own = { runtime: shortName(now.runtime, names), runtime_state: Object.fromEntries(views) };
  return mergeState(kept ?? { problem: UNREADABLE }, own) as unknown as AgentState;
}

/** One that is described in its agent (`hermes:mohe`) is called by its kind, where no other one is called so. */
function shortName(name: string, names: ReadonlySet<string>): string {
  const [kind = name] = name.split(":", 1);
  const isOnly = [...names].every((other) => other === name || other.split(":", 1)[0] !== kind);
  return isOnly ? kind : name;
}

/** The second over the first, map by map; lists and plain values are replaced whole. */
export function mergeState(
  under: Readonly<Record<string, unknown>>,
  over: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged = new Map(Object.entries(under));
  for (const [key, value] of Object.entries(over)) {
    const before = merged.get(key);
    merged.set(key, isRecord(before) && isRecord(value) ? mergeState(before, value) : value);
  }
  return Object.fromEntries(merged);
}
