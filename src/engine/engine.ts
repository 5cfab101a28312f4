import type { Claim } from "../store/port.ts";
import type { Settled, Turn, TurnSignal } from "../store/turns.ts";

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
  /** Whether a turn that is admitted here now may begin with its admission, `coming` others before it (B4). */
  hasRoom(coming: number): boolean;
  /** Runs a turn that `admit` began in its own transaction. */
  run(turn: Turn): void;
  /** The store has ended a turn of its own accord: a reset, a withdrawal. */
  ended(settled: Settled): void;
  stop(): Promise<void>;
}

/** Carries out what the engine is told, in the process that owns the session. */
export type EngineHandlers = Pick<Engine, "wake" | "signal" | "hasRoom" | "run" | "ended">;
