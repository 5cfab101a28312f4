/** What runs an agent, as a person may see it: never a key; an address only where it is on this machine (R5). */
export interface AgentFacts {
  readonly agent: string;
  readonly runtime: string;
  readonly model?: string;
  /** Tokens the model can hold, and who says so. */
  readonly window?: number;
  readonly windowFrom?: "configured" | "preset" | "default";
  readonly endpoint?: string;
}

/** The address is the owner's to know, where nobody else reads it (R5). */
export function factsFor(facts: AgentFacts, isOwnersAlone: boolean): AgentFacts {
  const { endpoint: _, ...shown } = facts;
  return isOwnersAlone ? facts : shown;
}

/** `Agent Main, runtime http, model qwen3:8b, context window 4,096 tokens (preset), at http://127.0.0.1:11434/v1` */
export function describeAgentFacts(facts: AgentFacts): string {
  const { agent, runtime, model, window, windowFrom, endpoint } = facts;
  return [
    `Agent ${agent}`,
    `runtime ${runtime}`,
    ...(model === undefined ? [] : [`model ${model}`]),
    ...(window === undefined ? [] : [`context window ${window.toLocaleString("en-US")} tokens (${windowFrom})`]),
    ...(endpoint === undefined ? [] : [`at ${endpoint}`]),
  ].join(", ");
}
