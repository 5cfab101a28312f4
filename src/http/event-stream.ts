import { Hono } from "hono";
import type { GatewayEvent } from "../events.ts";
import type { Gateway, Person } from "../gateway.ts";
import { exceptSilence } from "../reply/silence.ts";
import { isOwnKey, requireOwnKey } from "./access.ts";
import { sse } from "./sse.ts";
import type { Env } from "./wire.ts";

const KEEPALIVE_MS = 15_000;

/**
 * Events as they happen, as server-sent events: all that the caller may see, or those of `?conversation=KEY` (with what
 * happens in its session from other doors, H6). The stream keeps nothing: after a gap, ask /api/messages and /api/sessions.
 */
export function eventStream(gateway: Gateway, closing: AbortSignal): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", (context) => {
    const caller = context.get("caller");
    const key = context.req.query("conversation");
    if (key !== undefined) requireOwnKey(caller, key);
    return sse(context, async (reader) => {
      const push = (event: string, data: unknown): void => reader.push(JSON.stringify(data), event);
      push("hello", { conversation: key ?? null });
      const follow = followTurns(gateway, push);
      const tell = (event: GatewayEvent): void => {
        if (!concerns(event, key) || !isForCaller(caller, event)) return;
        push(event.name, event.payload);
        if (event.name === "turn:begun") follow(event.payload.turn.id);
      };
      const unsubscribe = gateway.events.subscribe(tell);
      // Whoever comes in the middle of a turn is told of it, and of its words so far.
      for (const payload of gateway.turnsBegun) tell({ name: "turn:begun", payload });
      const keepalive = setInterval(() => push("keepalive", {}), KEEPALIVE_MS);
      await firstAborted(reader.gone, closing);
      clearInterval(keepalive);
      unsubscribe();
      follow(null);
    });
  });
  return app;
}

/** Resolves when one of the signals is aborted, and leaves nothing on the others. */
async function firstAborted(...signals: readonly AbortSignal[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => resolve();
  for (const signal of signals) {
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) resolve();
  }
  await promise;
  for (const signal of signals) signal.removeEventListener("abort", done);
}

/** Watches every turn it is told of; null stops them all. */
function followTurns(gateway: Gateway, push: (event: string, data: unknown) => void): (turnId: number | null) => void {
  const watched = new Map<number, () => void>();
  return (turnId) => {
    if (turnId === null) {
      for (const stop of watched.values()) stop();
      watched.clear();
      return;
    }
    const say = exceptSilence((text) => push("turn:text", { turnId, text }));
    const stop = gateway.watch(turnId, {
      canAnswer: true,
      onEvent: (event) => {
        if (event.type === "end") {
          say(null);
          watched.delete(turnId);
          return;
        }
        const { type, ...data } = event;
        if (event.type === "text") say(event.text);
        else push(`turn:${type}`, { turnId, ...data });
      },
    });
    watched.set(turnId, stop);
  };
}

function concerns({ name, payload }: GatewayEvent, key: string | undefined): boolean {
  if (key === undefined) return true;
  if (name === "runtime:state") return false;
  return payload.conversationKey === key || ("homeKey" in payload && payload.homeKey === key);
}

/** An event of a conversation is for its person and the owner; the gateway's own are the owner's. */
function isForCaller(caller: Person, event: GatewayEvent): boolean {
  if (caller.role === "owner") return true;
  if (event.name === "runtime:state") return false;
  const { payload } = event;
  return isOwnKey(caller, payload.conversationKey) && (!("homeKey" in payload) || isOwnKey(caller, payload.homeKey));
}
