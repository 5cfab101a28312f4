import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { TertuliaError } from "../errors.ts";
import type { GatewayEvent } from "../events.ts";
import type { Gateway, Person } from "../gateway.ts";
import { isOwnKey } from "./access.ts";
import type { Env } from "./wire.ts";

/** A reader that does not keep up is cut: it comes back and asks for what it missed. */
const MOST_WAITING = 10_000;
const KEEPALIVE_MS = 15_000;

interface Line {
  readonly event: string;
  readonly data: unknown;
}

/**
 * Events as they happen, as server-sent events: all that the caller may see, or those of `?conversation=KEY` (with what
 * happens in its session from other doors, H6). The stream keeps nothing: after a gap, ask /api/messages and /api/sessions.
 */
export function eventStream(gateway: Gateway, closing: AbortSignal): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", (context) => {
    const caller = context.get("caller");
    const key = context.req.query("conversation");
    if (key !== undefined && !isOwnKey(caller, key))
      throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
    return streamSSE(context, async (stream) => {
      const lines: Line[] = [{ event: "hello", data: { conversation: key ?? null } }];
      let wake = Promise.withResolvers<void>();
      let isOpen = true;
      const push = (event: string, data: unknown): void => {
        lines.push({ event, data });
        if (lines.length > MOST_WAITING) close();
        wake.resolve();
      };
      const close = (): void => {
        isOpen = false;
        wake.resolve();
      };
      const follow = followTurns(gateway, push);
      const unsubscribe = gateway.events.subscribe((event) => {
        if (!concerns(event, key)) return;
        if (!isForCaller(caller, event)) return;
        push(event.name, event.payload);
        if (event.name === "turn:begun") follow(event.payload.turn.id);
      });
      const keepalive = setInterval(() => push("keepalive", {}), KEEPALIVE_MS);
      stream.onAbort(close);
      closing.addEventListener("abort", close, { once: true });
      try {
        while (isOpen) {
          const line = lines.shift();
          if (line !== undefined) {
            await stream.writeSSE({ event: line.event, data: JSON.stringify(line.data) });
            continue;
          }
          await wake.promise;
          wake = Promise.withResolvers<void>();
        }
      } finally {
        clearInterval(keepalive);
        closing.removeEventListener("abort", close);
        unsubscribe();
        follow(null);
      }
    });
  });
  return app;
}

/** Watches every turn it is told of; null stops them all. */
function followTurns(gateway: Gateway, push: (event: string, data: unknown) => void): (turnId: number | null) => void {
  const watched = new Map<number, () => void>();
  let isOver = false;
  return (turnId) => {
    if (turnId === null) {
      isOver = true;
      for (const stop of watched.values()) stop();
      watched.clear();
      return;
    }
    const stop = gateway.watch(turnId, {
      canAnswer: true,
      onEvent: (event) => {
        if (event.type === "end") {
          watched.delete(turnId);
          return;
        }
        const { type, ...data } = event;
        push(`turn:${type}`, { turnId, ...data });
      },
    });
    if (isOver) stop();
    else watched.set(turnId, stop);
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
