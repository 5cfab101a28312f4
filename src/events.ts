import { EventEmitter } from "node:events";
import type { Author, Message } from "./message/message.ts";
import type { OpenedHow, RuntimePoolEvent } from "./runtime/runtime.ts";
import type { DeliveryReport } from "./store/port.ts";
import type { BindingRow, DeliveryRow } from "./store/rows.ts";
import type { Turn } from "./store/turns.ts";

/** Where an event belongs: its conversation, and the home of the session it happened in (they differ while bound). */
export interface EventPlace {
  readonly conversationId: number;
  readonly conversationKey: string;
  readonly sessionId: string;
  readonly homeKey: string;
}

/** A turn as it is told of: what the model was told stays in the store, events reach everybody in the conversation. */
export type PublicTurn = Omit<Turn, "prompt">;

export function withoutPrompt({ prompt: _, ...told }: Turn): PublicTurn {
  return told;
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
  "turn:begun": { readonly turn: PublicTurn; readonly messages: readonly Message[] } & EventPlace;
  /** After the commit that ended it. */
  "turn:settled": {
    readonly turn: PublicTurn;
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

/** Where a turn or a delivery has got to, for whoever measures the way: told as it happens, whether or not anybody watches. */
export type Step =
  /** Its admission is durable; told again for each message that joins. */
  | { readonly kind: "admitted"; readonly turnId: number; readonly agent: string }
  /** All its messages were handed to the running turn: there is no such turn any more. */
  | { readonly kind: "taken_in"; readonly turnId: number }
  /** An agent is asked for, and is there. */
  | { readonly kind: "asked"; readonly turnId: number; readonly agent: string; readonly runtime: string }
  | { readonly kind: "opened"; readonly turnId: number; readonly cold: boolean; readonly how: OpenedHow }
  /** The prompt is written; the agent's first text; its result, or its being given up. */
  | { readonly kind: "prompted" | "spoke" | "heard"; readonly turnId: number }
  /** After the commit that ended it. */
  | { readonly kind: "settled"; readonly turn: Turn; readonly deliveries: readonly DeliveryRow[] }
  /** After the commit that says what became of an attempt at a push door. */
  | { readonly kind: "attempted"; readonly delivery: DeliveryRow; readonly result: DeliveryReport["result"] };

/** A listener must not throw; one that does is reported to `onFault` and stops nobody. */
export class EventBus {
  readonly #emitter = new EventEmitter().setMaxListeners(0);
  readonly #onFault: (cause: unknown) => void;

  constructor(onFault: (cause: unknown) => void) {
    this.#onFault = onFault;
  }

  emit<Name extends keyof GatewayEvents>(name: Name, payload: GatewayEvents[Name]): void {
    this.#emitter.emit("event", { name, payload });
    this.#emitter.emit(name, payload);
  }

  step(step: Step): void {
    this.#emitter.emit("step", step);
  }

  /** Whether an event would reach anybody: what it costs to build one can be saved. */
  get isHeard(): boolean {
    return this.#emitter.listenerCount("event") > 0;
  }

  /** Returns the way to stop listening. */
  subscribe(listener: (event: GatewayEvent) => void): () => void {
    return this.#listen("event", listener);
  }

  /** Hears one event that is always told, without being somebody who watches. Returns the way to stop. */
  on<Name extends "session:ended" | "runtime:state" | "turn:begun">(
    name: Name,
    listener: (payload: GatewayEvents[Name]) => void,
  ): () => void {
    return this.#listen(name, listener);
  }

  onStep(listener: (step: Step) => void): () => void {
    return this.#listen("step", listener);
  }

  #listen<T>(name: string, listener: (told: T) => void): () => void {
    const guarded = (told: T): void => {
      try {
        listener(told);
      } catch (cause) {
        this.#onFault(cause);
      }
    };
    this.#emitter.on(name, guarded);
    return () => this.#emitter.off(name, guarded);
  }
}
