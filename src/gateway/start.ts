import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Channel } from "../channel/channel.ts";
import { createXmppChannel } from "../channel/xmpp/xmpp-channel.ts";
import type { AccountConfig, Config } from "../config/config.ts";
import { watchFiles } from "../config/watch.ts";
import { maskedLog } from "../context/masked-log.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { type HttpServer, startHttpServer, tryAddress } from "../http/server.ts";
import { acquireLock, readLock } from "../store/sqlite/lock.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { type Clock, systemClock } from "../util/clock.ts";
import { type Log, logFault } from "../util/log.ts";
import { rightsOfOthers } from "../util/rights.ts";
import { Gateway } from "./gateway.ts";
import { lostSessions } from "./judge.ts";
import { openOwnerToken, ownerTokenIn } from "./owner-token.ts";

export interface RunningGateway {
  readonly gateway: Gateway;
  readonly url: string;
  readonly ownerToken: string;
  stop(): Promise<void>;
}

/** A whole gateway in this process: lock, store, parts, HTTP. What was opened is closed again when a later step fails. */
export async function startGateway({ config, log }: { config: Config; log: Log }): Promise<RunningGateway> {
  const closers: (() => unknown)[] = [];
  try {
    const lock = acquireLock({ path: config.files.lock, pid: process.pid, now: Date.now() });
    closers.push(() => lock.release());
    const ownerToken = openOwnerToken(config.files.token, {
      log,
      // Their agents sign in with tokens that are derived from the old one.
      onChange: () => {
        for (const { sessionId } of gateway.pool.list())
          gateway.pool.drop(sessionId).catch((cause) => logFault(log, cause));
      },
    });
    const onError = (cause: unknown): void => log.warn({ err: cause }, "the owner's token is not watched for changes");
    closers.push(
      watchFiles([config.files.token], { clock: systemClock, onError, onChange: () => void ownerToken.current }),
    );
    const { secrets } = config.files;
    const rights = rightsOfOthers(secrets);
    if (rights !== null)
      log.warn({ path: secrets, rights }, `others on this machine can read ${secrets}: run chmod 0600 ${secrets}`);
    const onTrouble = (err: TertuliaError): void => log.error({ err }, `${err.code}: ${err.message} ${err.remedy}`);
    const store = openSqliteStore({ path: config.files.state, clock: systemClock, lock, onTrouble });
    closers.push(() => store.close());
    const createChannel = (account: AccountConfig): Channel =>
      createXmppChannel({
        account,
        clock: systemClock,
        chance: Math.random,
        log: maskedLog(log, () => gateway.idMask),
      });
    const gateway: Gateway = new Gateway({ config, store, log, secret: () => ownerToken.current, createChannel });
    closers[closers.length - 1] = () => gateway.stop();
    const http: HttpServer = await startHttpServer({ gateway, ownerToken, log, startedAt: Date.now() });
    // After the gateway: whoever waits for a turn that is interrupted is told so before the connection is closed.
    closers.splice(-1, 0, () => http.close());
    await gateway.start();
    for await (const warning of lostSessions(config, (id) => store.session(id))) log.warn({}, warning);
    const url = urlOf(http.address);
    lock.publish(url);
    return { gateway, url, ownerToken: ownerToken.current, stop: () => closeAll(closers) };
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

/**
 * Reads the configuration anew when its files change, and when `reread` of the result is called. What is not valid is logged with its
 * complaint, and what holds goes on to hold (A3).
 */
export function followConfig({
  gateway,
  load,
  log,
  clock = systemClock,
}: {
  gateway: Gateway;
  /** Throws `config_invalid`. */
  load: () => Config;
  log: Log;
  clock?: Clock;
}): { reread(): Promise<void>; stop(): void } {
  let stopWatching = (): void => undefined;
  const onError = (cause: unknown): void => log.warn({ err: cause }, "the configuration is not watched for changes");
  const reread = async (): Promise<void> => {
    try {
      const needsRestart = await gateway.reload(load());
      if (needsRestart.length > 0)
        log.warn({ keys: needsRestart }, `these changes wait for the next start: ${needsRestart.join(", ")}`);
    } catch (cause) {
      const error = asTertuliaError(cause);
      log.error({ err: error }, `the configuration was not read anew: ${error.message}`);
    }
    watchAgain();
  };
  const watchAgain = (): void => {
    stopWatching();
    if (!gateway.isReady) return;
    stopWatching = watchFiles(gateway.config.files.watched, { clock, onError, onChange: () => void reread() });
  };
  watchAgain();
  return { reread, stop: () => stopWatching() };
}

async function closeAll(closers: (() => unknown)[]): Promise<void> {
  for (const close of closers.splice(0).reverse()) await close();
}

function urlOf({ host, port }: { host: string; port: number }): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** E6: what the machine would refuse a start for now, besides the lock and the state. Makes and changes nothing. */
export async function refusalsOfMachine(config: Config): Promise<readonly TertuliaError[]> {
  const { home, files } = config;
  const looks = [
    () => requireWritable(home),
    () => (existsSync(files.token) ? ownerTokenIn(files.token) : undefined),
    // A gateway of this home has its address.
    () => (readLock(files.lock) === null ? tryAddress(config) : undefined),
  ];
  const refusals: TertuliaError[] = [];
  for (const look of looks) {
    try {
      await look();
    } catch (cause) {
      refusals.push(asTertuliaError(cause));
    }
  }
  return refusals;
}

/** The folder, or where it would be made. Throws `home_unwritable`. */
export function requireWritable(home: string): void {
  const folder = nearestFolder(home);
  try {
    if (!statSync(folder).isDirectory()) throw new TertuliaError("home_unwritable", `${folder} is no folder.`);
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (cause) {
    if (cause instanceof TertuliaError) throw cause;
    throw new TertuliaError("home_unwritable", `${folder} cannot be written.`, { cause });
  }
}

export function nearestFolder(path: string): string {
  let folder = path;
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}
