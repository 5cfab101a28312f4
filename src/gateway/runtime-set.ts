import type { Config } from "../config/config.ts";
import { TertuliaError } from "../errors.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { GatewayParts } from "../turn/parts.ts";
import { createRuntimes, probeRuntimes, type RuntimeReport, type RuntimesOptions } from "./runtimes.ts";

/** An answer to a probe holds so long: probing starts programs. */
const PROBE_FRESH_MS = 10_000;

/** RuntimeSet: the runtimes of the configuration by name. One that is taken out ends with the gateway, for turns may still run on it. */
export class RuntimeSet {
  readonly #parts: Pick<GatewayParts, "clock" | "config">;
  readonly #options: RuntimesOptions;
  readonly #runtimes: Map<string, Runtime>;
  readonly #retired = new Set<Runtime>();
  #probe: { config: Config; reports: Promise<readonly RuntimeReport[]>; freshUntil: number } | null = null;

  /** Starts nothing. Throws `config_invalid`. */
  constructor(parts: Pick<GatewayParts, "clock" | "config">, options: RuntimesOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#runtimes = createRuntimes(parts.config(), options);
  }

  get(name: string): Runtime | undefined {
    return this.#runtimes.get(name);
  }

  /** Throws `runtime_unknown`. */
  named(name: string): Runtime {
    const runtime = this.#runtimes.get(name);
    if (runtime === undefined) throw new TertuliaError("runtime_unknown", `There is no runtime ${name}.`);
    return runtime;
  }

  /**
   * The runtime of an agent while nobody has switched it, with its kind. Over ACP a Hermes goes on only with sessions that began there:
   * those of its other doors are reached by its API, and looked up there (H13).
   */
  ofAgent(agent: string): Pick<Runtime, "name" | "lookUp"> & { readonly kind: string } {
    const { agents, runtimes } = this.#parts.config();
    const name = agents[agent]?.runtime ?? "none";
    const runtime = this.#runtimes.get(name);
    const lookUp = runtime?.lookUp?.bind(runtime);
    return { name, kind: runtimes[name]?.kind ?? "none", ...(lookUp === undefined ? {} : { lookUp }) };
  }

  /** Creates what a new configuration adds. Throws `config_invalid`, and then nothing has changed. */
  add(config: Config): void {
    for (const [name, runtime] of createRuntimes(config, this.#options))
      if (!this.#runtimes.has(name)) this.#runtimes.set(name, runtime);
  }

  /** Takes out what is not configured any more; returns the names. */
  retire(): readonly string[] {
    const { runtimes } = this.#parts.config();
    const gone = [...this.#runtimes].filter(([name]) => runtimes[name] === undefined);
    for (const [name, runtime] of gone) {
      this.#runtimes.delete(name);
      this.#retired.add(runtime);
    }
    return gone.map(([name]) => name);
  }

  /** Asks every runtime whether it can run. Calls while it runs, or soon after, get the same answer. */
  probe(): Promise<readonly RuntimeReport[]> {
    const { clock } = this.#parts;
    const config = this.#parts.config();
    const known = this.#probe;
    if (known !== null && known.config === config && clock.now() < known.freshUntil) return known.reports;
    const reports = probeRuntimes(config, { clock });
    const probe = { config, reports, freshUntil: Number.POSITIVE_INFINITY };
    const done = (): void => {
      probe.freshUntil = clock.now() + PROBE_FRESH_MS;
    };
    reports.then(done, done);
    this.#probe = probe;
    return reports;
  }

  async close(): Promise<void> {
    const all = new Set([...this.#runtimes.values(), ...this.#retired]);
    await Promise.all([...all].map((runtime) => runtime.close()));
  }
}
