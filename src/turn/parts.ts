import type { Config } from "../config/config.ts";
import type { EventBus } from "../events.ts";
import type { Claim, Store } from "../store/port.ts";
import type { Clock } from "../util/clock.ts";
import type { IdSource } from "../util/ids.ts";
import type { Log } from "../util/log.ts";

/** The parts of a gateway that nearly every other part needs. */
export interface GatewayParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** The gateway's right to write. Throws `gateway_stopping` while it has none. */
  readonly claim: () => Claim;
  /** The configuration at this moment. Do not keep it: a reload puts another one in its place (A3). */
  readonly config: () => Config;
  readonly events: EventBus;
  readonly log: Log;
}
