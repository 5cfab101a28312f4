import { createRuntimePool, type RuntimePool } from "../runtime/runtime-pool.ts";
import type { GatewayParts } from "../turn/parts.ts";
import { logFault } from "../util/log.ts";

/** Creates the pool with the limits of the configuration; its changes of state are events, and a restart is kept in the store. */
export function createPool({ clock, config, events, store, claim, log }: GatewayParts): RuntimePool {
  const { idleMinutes, maxWarm, maxMemoryMb } = config().pool;
  return createRuntimePool({
    clock,
    idleMs: idleMinutes * 60_000,
    maxWarm,
    ...(maxMemoryMb === undefined ? {} : { maxMemoryMb }),
    onEvent: (event) => events.emit("runtime:state", event),
    onRestart: (restart) => {
      const kept = store.keep({ kind: "restarts", ...restart, status: "degraded" }, claim());
      kept.catch((cause) => logFault(log, cause));
    },
  });
}
