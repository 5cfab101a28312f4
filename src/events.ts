import { EventEmitter } from "node:events";
import type { Author, Message } from "./message/message.ts";
import type { RuntimePoolEvent } from "./runtime/runtime.ts";
import type { BindingRow, DeliveryRow, Turn } from "./store/store.ts";

/** Where an event belongs: its conversation, and the home of the session it happened in (they differ while bound). */
export interface EventPlace {
  readonly conversationId: number;
  readonly conversationKey: string;
  readonly sessionId: string;
  readonly homeKey: string;
}

/** Every event of a gateway, its payload, and when it fires. Events are for people who watch; what must not be lost is in the store. */
export interface GatewayEvents {
  /** After the commit that took a message in. */
  "message:admitted": {
    readonly conversationKey: string;
    readonly conversationId: number;
    readonly messageId: number;
    readonly text: string;
    readonly author: Author;
    readonly outcome: string;
    readonly turnId: number | null;
  };
  /** A turn's prompt is about to be written; who wants its words watches the turn from here on. */
  "turn:begun": { readonly turn: Turn; readonly messages: readonly Message[] } & EventPlace;
  /** After the commit that ended it. */
  "turn:settled": {
    readonly turn: Turn;
    readonly text: string;
    readonly silent: boolean;
    readonly messageIds: readonly number[];
  } & EventPlace;
  /** After the commit that wrote a delivery row; at a pull door it is delivered with it (O6). */
  "delivery:written": {
    readonly delivery: DeliveryRow;
    readonly text: string;
    readonly conversationKey: string;
    readonly conversationId: number;
  };
  "session:ended": { readonly sessionId: string; readonly reason: string; readonly conversationKey: string };
  "binding:changed": { readonly conversationKey: string; readonly binding: BindingRow | null };
  "runtime:state": RuntimePoolEvent;
}

export type GatewayEvent = {
  [Name in keyof GatewayEvents]: { readonly name: Name; readonly payload: GatewayEvents[Name] };
}[keyof GatewayEvents];

/** A listener must not throw; one that does is reported to `onFault` and stops nobody. */
export class EventBus {
  readonly #emitter = new EventEmitter().setMaxListeners(0);
  readonly #onFault: (cause: unknown) => void;

  constructor(onFault: (cause: unknown) => void) {
    this.#onFault = onFault;
  }

  emit<Name extends keyof GatewayEvents>(name: Name, payload: GatewayEvents[Name]): void {
    this.#emitter.emit("event", { name, payload });
  }

  /** Whether an event would reach anybody: what it costs to build one can be saved. */
  get isHeard(): boolean {
    return this.#emitter.listenerCount("event") > 0;
  }

  /** Returns the way to stop listening. */
  subscribe(listener: (event: GatewayEvent) => void): () => void {
    const guarded = (event: GatewayEvent): void => {
      try {
        listener(event);
      } catch (cause) {
        this.#onFault(cause);
      }
    };
    this.#emitter.on("event", guarded);
    return () => this.#emitter.off("event", guarded);
  }
}
