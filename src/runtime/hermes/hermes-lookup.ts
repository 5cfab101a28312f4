import { TertuliaError } from "../../errors.ts";
import type { ForeignStanding } from "../runtime.ts";
import { answered } from "./hermes-failures.ts";
import type { HermesServer, KnownSession } from "./hermes-server.ts";

/** What Hermes can be asked for: an id that a header and a path hold, and that leads to no other path. */
const ID = /^(?!\.{1,2}$)[\x21-\x7e]{1,256}$/;
/** Its program went away, or turned to another session; Hermes opens the session again with its next word. */
const LEFT_OPEN: readonly string[] = [
  "agent_close",
  "cli_close",
  "idle_timeout",
  "lru_evict",
  "resumed_other",
  "startup_orphan_reap",
  "superseded_by_resume",
  "tui_shutdown",
  "user_exit",
  "ws_disconnect",
  "ws_orphan_reap",
];

/** How a session of Hermes' own stands there. Throws `runtime_failed` where Hermes cannot be asked. */
export async function lookUp(server: HermesServer, id: string, signal: AbortSignal): Promise<ForeignStanding> {
  if (!ID.test(id)) return "unknown";
  const { sessions: isAskable } = answered(await server.capabilities(signal), server, signal);
  if (!isAskable) {
    throw new TertuliaError(
      "runtime_failed",
      `Hermes at ${server.where} is an old one: it cannot be asked whether it has session ${id}.`,
      { remedy: "Update Hermes there, or send with --no-session, which binds nothing." },
    );
  }
  const known = answered(await server.session(id, signal), server, signal);
  if (known === null || known.tip === id) return standing(known);
  return standing(answered(await server.session(known.tip, signal), server, signal));
}

function standing(known: KnownSession | null): ForeignStanding {
  if (known === null) return "unknown";
  return known.endReason === null || LEFT_OPEN.includes(known.endReason) ? "open" : "ended";
}
