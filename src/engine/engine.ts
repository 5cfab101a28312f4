import type { Claim, TurnSignal } from "../store/store.ts";

/**
 * Engine: who runs a session's turns now, and who holds a channel account. The unit is the session id. The local engine is
 * this process; a distributed one sends the same calls to the node that owns the session. `admit`'s commit stays the
 * acknowledgement: the engine is told after it, may be told again, and forgets nothing that the store has.
 */
export interface Engine {
  /** Becomes the holder: every older claim is stale from here on. */
  start(handlers: EngineHandlers): Promise<Claim>;
  /** There is work in this session; safe to repeat. */
  wake(sessionId: string): void;
  /** To whoever runs that turn; too late is no error. */
  signal(signal: TurnSignal): void;
  stop(): Promise<void>;
}

export interface EngineHandlers {
  wake(sessionId: string): void;
  signal(signal: TurnSignal): void;
}
