import type { Claim, Store } from "../../store/port.ts";
import type { Settled, Turn, TurnSignal } from "../../store/turns.ts";
import type { Engine, EngineHandlers } from "../engine.ts";

/** One process owns every session: its epoch is the store's boot counter. */
export function createLocalEngine(options: { store: Store; holder: string }): Engine {
  let handlers: EngineHandlers | null = null;
  return {
    async start(given: EngineHandlers): Promise<Claim> {
      const claim = await options.store.claim(options.holder);
      handlers = given;
      return claim;
    },
    wake: (sessionId: string) => handlers?.wake(sessionId),
    signal: (signal: TurnSignal) => handlers?.signal(signal),
    hasRoom: (coming: number) => handlers?.hasRoom(coming) ?? false,
    run: (turn: Turn) => handlers?.run(turn),
    ended: (settled: Settled) => handlers?.ended(settled),
    async stop() {
      handlers = null;
    },
  };
}
