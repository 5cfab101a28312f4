import { runtimeOf } from "../config/config.ts";
import { type NextContext, nextContextOf } from "../context/next-context.ts";
import type { GatewayFacts } from "../context/settings.ts";
import { type AgentState, agentStateOf } from "../conversation/agent-state.ts";
import { TertuliaError } from "../errors.ts";
import type { ImportResult, KeepChange } from "../store/keep.ts";
import type { ConversationRow } from "../store/rows.ts";
import type { GatewayParts } from "../turn/parts.ts";
import type { RuntimeSet } from "./runtime-set.ts";

/** Conversations: what can be asked of a conversation, and kept with it, besides speaking in it. */
export class Conversations {
  readonly #parts: GatewayParts;
  readonly #facts: GatewayFacts;
  readonly #runtimes: RuntimeSet;

  constructor(parts: GatewayParts, { facts, runtimes }: { facts: GatewayFacts; runtimes: RuntimeSet }) {
    this.#parts = parts;
    this.#facts = facts;
    this.#runtimes = runtimes;
  }

  /** C7: what the next turn of a conversation would be told. Throws `conversation_unknown`. */
  async nextContext(key: string): Promise<NextContext> {
    const { config, store, clock, ids } = this.#parts;
    return nextContextOf(await this.#named(key), {
      config: config(),
      facts: this.#facts,
      reader: store,
      now: clock.now(),
      nonce: ids.token(),
    });
  }

  /** What runs a conversation now (B7). */
  runtimeOf(conversation: ConversationRow): string {
    return runtimeOf(this.#parts.config(), conversation);
  }

  /** B6: a conversation's runtimes as other programs read them, with what they keep there themselves. */
  async agentState({ id, currentSession, ...conversation }: ConversationRow): Promise<AgentState> {
    const { store, config } = this.#parts;
    const states = currentSession === null ? [] : await store.runtimeStates(currentSession);
    const known = states.map((state) => ({ ...state, ref: this.#idIn(state, currentSession) }));
    return agentStateOf(await store.agentState(id), { runtime: runtimeOf(config(), conversation), states: known });
  }

  /** The plain id of a session at its runtime; where the gateway keeps the history it is the gateway's own. */
  #idIn({ runtime: name, ref }: { readonly runtime: string; readonly ref: string | null }, sessionId: string | null) {
    const runtime = this.#runtimes.get(name);
    if (ref === null || runtime === undefined) return null;
    if (runtime.history === "gateway") return sessionId;
    return runtime.idOf === undefined ? ref : runtime.idOf(ref);
  }

  /** Merges keys of other programs into the agent state. Throws `conversation_unknown`. */
  async keepAgentState(key: string, patch: Readonly<Record<string, unknown>>): Promise<void> {
    const { store, claim } = this.#parts;
    const { id: conversationId } = await this.#named(key);
    await store.keep({ kind: "agent_state", conversationId, patch }, claim());
  }

  /** H13: a batch of another program's sessions. Throws `agent_unknown`. */
  async import(change: Omit<Extract<KeepChange, { kind: "import" }>, "kind" | "now">): Promise<ImportResult> {
    const { store, claim, clock, config } = this.#parts;
    if (!Object.hasOwn(config().agents, change.agent))
      throw new TertuliaError("agent_unknown", `There is no agent ${change.agent}.`);
    const kept = await store.keep({ kind: "import", now: clock.now(), ...change }, claim());
    return kept.imported ?? { sessions: 0, messages: 0, wentOn: [] };
  }

  async #named(key: string): Promise<ConversationRow> {
    const conversation = await this.#parts.store.conversation(key);
    if (conversation === null) throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
    return conversation;
  }
}
