import { rulesFor, runtimeOf } from "../config/config.ts";
import { sourceOfConversation } from "../context/door-line.ts";
import { asSeenBy, openRequestFor } from "../context/turn-context.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import type { OpenedHow } from "../runtime/runtime.ts";
import type { TurnRunOptions } from "./turn-run.ts";

/**
 * Ends the session's agent and opens it anew. `how` is null, and nothing is opened before the next turn, where the next message of the
 * session's home would go to another session, or no place is free. Throws `session_unknown`, `session_ended`, `busy`, and why the agent
 * cannot be opened.
 */
export async function restartAgent(
  sessionId: string,
  isBusy: () => boolean,
  options: TurnRunOptions,
): Promise<{ how: OpenedHow | null }> {
  const { store, pool, clock, claim, facts, runtimeNamed } = options;
  const session = await store.session(sessionId);
  if (session === null) throw new TertuliaError("session_unknown", `There is no session ${sessionId}.`);
  if (session.endedAt !== null) throw new TertuliaError("session_ended", `Session ${sessionId} has ended.`);
  if (isBusy()) throw new TertuliaError("busy", `A turn runs in session ${sessionId}.`);
  await pool.drop(sessionId);
  if (pool.room === 0) return { how: null };
  const home = await store.conversationById(session.home);
  if (home === null) return { how: null };
  const config = options.config();
  const { rules } = rulesFor(config, { agent: home.agent, key: home.key, source: sourceOfConversation(home) });
  const found = await store.nextTurnMaterial({ conversationId: home.id, now: clock.now(), rules });
  if (found?.session.id !== sessionId) return { how: null };
  const runtime = runtimeNamed(runtimeOf(config, home));
  const material = await asSeenBy(runtime.name, found, store);
  const { signal } = new AbortController();
  const restarts = (material.runtimeState?.restarts ?? 0) + 1;
  const restarted = { kind: "restarts", sessionId, runtime: runtime.name, restarts } as const;
  try {
    const lease = await pool.acquire({
      sessionId,
      runtime,
      restarts,
      signal,
      request: () => openRequestFor(material, { config, facts: facts(), reader: store, runtime, signal }),
    });
    lease.release();
    await store.keep(restarted, claim());
    return { how: lease.how };
  } catch (cause) {
    if (asTertuliaError(cause).code === "runtime_failed") await store.keep({ ...restarted, status: "broken" }, claim());
    throw cause;
  }
}
