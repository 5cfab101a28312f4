import { type Digest, readDigest, settingsFrom } from "../digest/digest.ts";
import { DigestKeeper } from "../digest/digest-keeper.ts";
import { createOwnTalks } from "../digest/own-talks.ts";
import type { GatewayParts } from "../turn/parts.ts";
import { logFault } from "../util/log.ts";

/** OwnDigest: the digest of this gateway's own doors, read on demand and kept as files where the configuration names a home (D1). */
export class OwnDigest {
  readonly #parts: GatewayParts;
  /** Null where no home is configured. */
  #keeper: DigestKeeper | null = null;

  constructor(parts: GatewayParts) {
    this.#parts = parts;
  }

  read(): Promise<Digest> {
    const { store, config, clock } = this.#parts;
    return readDigest(createOwnTalks(store), settingsFrom(config().digest), clock.now());
  }

  start(): void {
    this.#keeper = this.#createKeeper();
    this.#keeper?.start();
  }

  async stop(): Promise<void> {
    await this.#keeper?.stop();
    this.#keeper = null;
  }

  #createKeeper(): DigestKeeper | null {
    const { store, clock, ids, log, config } = this.#parts;
    const { digest, timezone } = config();
    if (digest.home === null) return null;
    return new DigestKeeper({
      home: digest.home,
      intervalMs: digest.intervalMs,
      source: createOwnTalks(store),
      settings: settingsFrom(digest),
      rendering: { lang: digest.lang, timezone },
      clock,
      nonce: () => ids.token().slice(0, 12),
      onWritten: (files) => log.info({ home: digest.home, files }, "the digest was written"),
      onWarning: (warning) => log.warn({ home: digest.home }, warning),
      onFault: (cause) => logFault(log, cause),
    });
  }
}
