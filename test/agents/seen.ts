import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { AGENT_CACHE } from "../support/agent-installs.ts";

/** What was seen, one line a fact in `.cache/agents/seen.jsonl`: the numbers of docs/agents-tested.md come from there. */
export function note(agent: string, what: string, value: number | string): void {
  mkdirSync(AGENT_CACHE, { recursive: true });
  const shown = typeof value === "number" ? Math.round(value) : value;
  appendFileSync(join(AGENT_CACHE, "seen.jsonl"), `${JSON.stringify({ agent, what, value: shown })}\n`);
}
