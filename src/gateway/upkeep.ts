import type { RuntimePool } from "../runtime/runtime-pool.ts";
import type { GatewayParts } from "../turn/parts.ts";
import { logFault } from "../util/log.ts";
import type { RuntimeSet } from "./runtime-set.ts";

const PRUNE_MS = 3_600_000;

/** Writes the people of the configuration, and their accounts, into the store. */
export async function keepPeople({ store, claim, clock, config }: GatewayParts): Promise<void> {
  const people = Object.values(config().people);
  for (const { id, role, name } of people) {
    const person = { id, role, ...(name === undefined ? {} : { name }) };
    await store.keep({ kind: "person", person }, claim());
  }
  const identities = people.flatMap(({ id: personId, accounts }) =>
    accounts.map(({ platform, id: userId }) => ({ platform, userId, personId })),
  );
  await store.keep({ kind: "identities", now: clock.now(), identities }, claim());
}

/** Pruning: once an hour what is over is removed from the store, and with it what the agents of those sessions have kept. */
export class Pruning {
  readonly #parts: GatewayParts;
  readonly #pool: RuntimePool;
  readonly #runtimes: RuntimeSet;
  #cancel = (): void => undefined;

  constructor(parts: GatewayParts, { pool, runtimes }: { pool: RuntimePool; runtimes: RuntimeSet }) {
    this.#parts = parts;
    this.#pool = pool;
    this.#runtimes = runtimes;
  }

  start(): void {
    const { clock, log } = this.#parts;
    this.#prune().catch((cause) => logFault(log, cause));
    this.#cancel = clock.after(PRUNE_MS, () => this.start());
  }

  stop(): void {
    this.#cancel();
  }

  /** An agent's session that cannot be forgotten stops no other. */
  async #prune(): Promise<void> {
    const { store, clock, claim, log } = this.#parts;
    const { forgotten = [] } = await store.keep({ kind: "prune", now: clock.now() }, claim());
    for (const { sessionId, runtime, ref } of forgotten) {
      await this.#pool.drop(sessionId);
      await this.#runtimes
        .get(runtime)
        ?.forget(ref)
        .catch((cause) => logFault(log, cause));
    }
  }
}
