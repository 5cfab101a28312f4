import type { Claim, Store, TurnSignal } from "../../store/store.ts";
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
    async stop() {
      handlers = null;
    },
  };
}
