import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { ChannelStatus } from "../channel/channel.ts";
import { type AgentConfig, type Config, type ConfigFlags, loadConfig } from "../config/config.ts";
import { silentPlatforms } from "../config/reload.ts";
import { blockProblem, lookAtBlock } from "../digest/files.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { createRuntimes } from "../gateway/runtimes.ts";
import { trustedUid } from "../http/peer.ts";
import type { Platform } from "../message/source.ts";
import { Workspaces } from "../runtime/acp/workspace.ts";
import { Database } from "../store/sqlite/database.ts";
import { type LockHolder, readLock } from "../store/sqlite/lock.ts";
import { checkFile, hasState, openSqliteReader, type StateFiles } from "../store/sqlite/sqlite-store.ts";
import type { RefusedRow } from "../store/store.ts";
import { systemClock } from "../util/clock.ts";
import { rightsOfOthers } from "../util/rights.ts";
import { describeSpan } from "../util/span.ts";
import { when } from "../util/when.ts";
import { isLoopback, trustedOverHttp } from "./access-summary.ts";
import { connect } from "./client.ts";
import { forwardersOf } from "./forwarders.ts";
import { output } from "./output.ts";
import { readState } from "./state.ts";
import { plural, table } from "./table.ts";

const NODE_MAJOR = 24;
const LITTLE_SPACE = 200 * 2 ** 20;
const NO_SPACE = 20 * 2 ** 20;
const REFUSED_LIMIT = 1_000;
const PROBE_MS = 10_000;

/** What was looked at, and what was found. `unusable`: the state or the machine cannot carry a gateway. */
interface Finding {
  readonly check: string;
  readonly state: "ok" | "warn" | "fail" | "unusable";
  readonly text: string;
  readonly remedy?: string;
}

/** `tertulia doctor`: one line for each thing that has to be right. Changes nothing. Exit code 0, 1 (a check failed) or 3 (unusable). */
export async function doctor({ json, ...flags }: ConfigFlags & { json?: boolean }): Promise<void> {
  const findings = [nodeFinding(), ...(await configFindings(flags))];
  output(json ? JSON.stringify({ findings }) : table(findings.map(line)));
  const isUnusable = findings.some(({ state }) => state === "unusable");
  process.exitCode = isUnusable ? 3 : findings.some(({ state }) => state === "fail") ? 1 : 0;
}

function line({ check, state, text, remedy }: Finding): string[] {
  return [state === "unusable" ? "fail" : state, check, remedy === undefined ? text : `${text} ${remedy}`];
}

function nodeFinding(): Finding {
  const { node } = process.versions;
  if (Number(node.split(".")[0]) >= NODE_MAJOR) return { check: "node", state: "ok", text: `Node ${node}` };
  return {
    check: "node",
    state: "unusable",
    text: `Node ${node} is too old.`,
    remedy: `Install Node ${NODE_MAJOR} or newer.`,
  };
}

async function configFindings(flags: ConfigFlags): Promise<readonly Finding[]> {
  let config: Config;
  try {
    config = loadConfig({ flags });
  } catch (cause) {
    const finding = failed("configuration", cause);
    const remedy = "`tertulia config check` shows it all; the other checks need the configuration.";
    return [{ ...finding, text: `${finding.text.split("\n", 1)[0]}.`, remedy }];
  }
  const file = config.files.config ?? "no file: everything at its default";
  return [{ check: "configuration", state: "ok", text: file }, ...(await stateFindings(config))];
}

async function stateFindings(config: Config): Promise<readonly Finding[]> {
  const [lock, holder] = lockFinding(config);
  const schema = schemaFinding(config.files);
  return [
    folderFinding(config.home),
    ...fileFindings(config),
    diskFinding(config.home),
    ...proxyFindings(config),
    lock,
    ...(holder === null ? [] : await gatewayFindings(config)),
    schema,
    // What cannot be read is said once.
    ...(schema.state === "ok" ? [contentFinding(config.files.state, holder), await refusedFinding(config)] : []),
    ...(schema.state === "ok" ? await workspaceFindings(config) : []),
    ...(await Promise.all(Object.values(config.agents).map((agent) => agentFinding(config, agent)))),
    ...openDoorFindings(config),
    ...forwarderFindings(config),
    ...silentPlatforms(config).map(silenceFinding),
    ...shellFindings(config),
    ...digestFindings(config),
  ];
}

/** A check that threw: the sentence and remedy of the error. */
function failed(check: string, cause: unknown): Finding {
  const { message, remedy, exitCode } = asTertuliaError(cause);
  return { check, state: exitCode === 3 ? "unusable" : "fail", text: message, remedy };
}

// ---- the machine

function folderFinding(home: string): Finding {
  const check = "state folder";
  const isThere = existsSync(home);
  const writable = isThere ? home : nearestFolder(home);
  try {
    accessSync(writable, constants.W_OK | constants.X_OK);
  } catch (cause) {
    return failed(check, new TertuliaError("home_unwritable", `${writable} cannot be written.`, { cause }));
  }
  if (!isThere) return { check, state: "ok", text: `${home} is not there yet; \`tertulia start\` makes it.` };
  return rightsFinding(check, home, "0700") ?? { check, state: "ok", text: `${home}, yours alone` };
}

function fileFindings({ files }: Config): readonly Finding[] {
  const all = [files.state, `${files.state}-wal`, `${files.state}-shm`, files.lock, files.token, files.secrets];
  const paths = all.filter((path) => existsSync(path));
  const open = paths.flatMap((path) => rightsFinding("files", path, "0600") ?? []);
  if (paths.length === 0 || open.length > 0) return open;
  return [{ check: "files", state: "ok", text: `${paths.map((path) => basename(path)).join(", ")}: yours alone` }];
}

/** Null where nobody else has a right. */
function rightsFinding(check: string, path: string, wanted: string): Finding | null {
  const rights = rightsOfOthers(path);
  if (rights === null) return null;
  const text = `${path} has the rights ${rights}: others on this machine can get at it.`;
  return { check, state: "warn", text, remedy: `Run chmod ${wanted} ${path}` };
}

function diskFinding(home: string): Finding {
  const check = "disk";
  const { bavail, bsize } = statfsSync(nearestFolder(home));
  const free = bavail * bsize;
  const text = `${free >= 2 ** 30 ? `${(free / 2 ** 30).toFixed(1)} GB` : `${Math.round(free / 2 ** 20)} MB`} free`;
  const remedy = "Free some disk space: without it messages are refused.";
  if (free < NO_SPACE) return { check, state: "unusable", text, remedy };
  return free < LITTLE_SPACE ? { check, state: "warn", text, remedy } : { check, state: "ok", text };
}

/** Without user and password. */
function proxyFindings({ proxies }: Config): readonly Finding[] {
  if (proxies === undefined) return [];
  const { http, https = http, except } = proxies;
  const ways = [
    ...(http === undefined ? [] : [`http through ${new URL(http).host}`]),
    ...(https === undefined ? [] : [`https through ${new URL(https).host}`]),
  ];
  const left = except === "" ? "" : `, nor what NO_PROXY names (${except})`;
  const text = `models are asked by ${ways.join(", ")} (HTTP_PROXY, HTTPS_PROXY); never this machine${left}`;
  return [{ check: "proxy", state: "ok", text }];
}

function nearestFolder(path: string): string {
  let folder = path;
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

// ---- the state, and who holds it

function lockFinding({ files }: Config): readonly [Finding, LockHolder | null] {
  const check = "lock";
  try {
    const holder = readLock(files.lock);
    if (holder === null) return [{ check, state: "ok", text: "free: no gateway runs" }, null];
    const at = holder.address === null ? "which is starting or stopping" : `which listens at ${holder.address}`;
    return [{ check, state: "ok", text: `held by process ${holder.pid}, ${at}` }, holder];
  } catch (cause) {
    return [failed(check, cause), null];
  }
}

interface Status {
  readonly startedAt: number;
  readonly warm: readonly { readonly state: string }[];
  readonly runningTurns: number;
  readonly counts: { readonly openTurns: number; readonly openDeliveries: number };
  readonly channels: readonly { readonly account: string; readonly agent: string; readonly status: ChannelStatus }[];
}

async function gatewayFindings(config: Config): Promise<readonly Finding[]> {
  const check = "gateway";
  try {
    const client = await connect(config);
    const { startedAt, warm, runningTurns, counts, channels } = await client.get<Status>("/api/status");
    const broken = warm.filter(({ state }) => state === "broken").length;
    const text = [
      `answers, up for ${describeSpan(Date.now() - startedAt)}`,
      `${plural(warm.length - broken, "warm agent")}`,
      `${plural(runningTurns, "turn")} running of ${counts.openTurns} open`,
      `${counts.openDeliveries} to deliver`,
    ].join("; ");
    const accounts = channels.map(accountFinding);
    if (broken === 0) return [{ check, state: "ok", text }, ...accounts];
    const remedy = "They are tried again by themselves; the log says why they failed.";
    return [{ check, state: "warn", text: `${text}; ${plural(broken, "agent")} broken.`, remedy }, ...accounts];
  } catch (cause) {
    return [failed(check, cause)];
  }
}

export function accountFinding({ account, agent, status }: Status["channels"][number]): Finding {
  const check = `account ${account}`;
  const text = `of ${agent}: ${status.state}`;
  if ("reason" in status) {
    const state = status.state === "fatal" ? "fail" : "warn";
    return { check, state, text: `${text} (${status.reason}).` };
  }
  const { problems = [], hidden = [] } = status;
  const sentences = [...problems, ...hidden];
  if (sentences.length === 0) return { check, state: "ok", text };
  const remedy = "Let the room show addresses to everybody, or make the account a moderator there (docs/xmpp.md).";
  return { check, state: "warn", text: `${text}. ${sentences.join(" ")}`, ...(hidden.length === 0 ? {} : { remedy }) };
}

function schemaFinding(files: StateFiles): Finding {
  const check = "schema";
  const path = files.state;
  try {
    if (!hasState(files)) return { check, state: "ok", text: "no state yet" };
    openSqliteReader(path, files.lock).close();
    return { check, state: "ok", text: `version ${schemaVersion(path)}, the one this Tertulia reads` };
  } catch (cause) {
    const finding = failed(check, cause);
    // The next start migrates it.
    return asTertuliaError(cause).code === "store_older" ? { ...finding, state: "warn" } : finding;
  }
}

function schemaVersion(path: string): number | undefined {
  const db = new Database(path, { readOnly: true });
  try {
    return db.get<{ user_version: number }>("PRAGMA user_version")?.user_version;
  } finally {
    db.close();
  }
}

function contentFinding(path: string, holder: LockHolder | null): Finding {
  const check = "content";
  if (!existsSync(path)) return { check, state: "ok", text: "no state yet" };
  if (holder !== null) return { check, state: "ok", text: "not looked at while a gateway runs" };
  try {
    const answer = checkFile(path);
    if (answer === "ok") return { check, state: "ok", text: "SQLite finds no damage" };
    return failed(check, new TertuliaError("store_corrupt", `${path} is damaged: ${answer}.`));
  } catch (cause) {
    return failed(check, cause);
  }
}

async function refusedFinding(config: Config): Promise<Finding> {
  const check = "refused";
  try {
    const rows =
      (await readState<readonly RefusedRow[]>(config, {
        gateway: async (client) =>
          (
            await client.get<{ refused: RefusedRow[] }>(`/api/refused?limit=${REFUSED_LIMIT}`)
          ).refused,
        file: (reader) => reader.refusedEvents({ limit: REFUSED_LIMIT }),
      })) ?? [];
    const [last] = rows;
    if (last === undefined) return { check, state: "ok", text: "every event could be admitted" };
    const count = rows.length < REFUSED_LIMIT ? plural(rows.length, "event") : `${REFUSED_LIMIT} events or more`;
    const text = `${count} could not be admitted; the last from ${last.account} at ${when(last.at, config.timezone)}: ${last.sentence}`;
    return { check, state: "warn", text, remedy: "`tertulia explain --source` shows how a source is read." };
  } catch (cause) {
    return failed(check, cause);
  }
}

/** Folders that agents have worked in. Those of sessions that are gone are nobody's: a gateway ended before it could remove them. */
async function workspaceFindings({ home, files }: Config): Promise<readonly Finding[]> {
  const check = "workspace";
  const folders = await new Workspaces(home).folders();
  if (folders.length === 0 || !existsSync(files.state)) return [];
  const { reader, close } = openSqliteReader(files.state);
  try {
    const left: string[] = [];
    for (const folder of folders)
      if ((await reader.session(folder)) === null) left.push(join(home, "workspace", folder));
    const text = `${plural(folders.length, "folder")} of sessions`;
    if (left.length === 0) return [{ check, state: "ok", text }];
    const shown = [...left.slice(0, FOLDERS_SHOWN), ...(left.length > FOLDERS_SHOWN ? ["…"] : [])].join(" ");
    return [
      { check, state: "warn", text: `${text}; ${left.length} of sessions that are gone.`, remedy: `Remove: ${shown}` },
    ];
  } catch (cause) {
    return [failed(check, cause)];
  } finally {
    close();
  }
}

const FOLDERS_SHOWN = 3;

// ---- agents and doors

async function agentFinding(config: Config, { name, runtime: runtimeName }: AgentConfig): Promise<Finding> {
  const check = `agent ${name}`;
  const runtime = createRuntimes(config, { clock: systemClock, chance: Math.random }).get(runtimeName)!;
  try {
    const { ok, version, detail, missing } = await runtime.probe(AbortSignal.timeout(PROBE_MS));
    const text = `runtime ${runtimeName}${version === undefined ? "" : ` ${version}`}: ${detail}`;
    if (ok) return { check, state: "ok", text };
    return {
      check,
      state: "fail",
      text,
      remedy: missing ?? `Correct agents.${name}.runtime, or see to it that it can be reached.`,
    };
  } catch (cause) {
    return failed(check, cause);
  } finally {
    await runtime.close();
  }
}

/** D7: whether what the gateway writes for other doors reaches its reader. */
function digestFindings({ digest: { home } }: Config): readonly Finding[] {
  const check = "digest";
  if (home === null) return [];
  try {
    const { files, warnings } = lookAtBlock(home);
    const problem = blockProblem(home, files);
    if (problem !== null) return [failed(check, problem)];
    if (warnings.length > 0) return warnings.map((text) => ({ check, state: "warn", text }));
    const isThere = files.every(({ change }) => change === "unchanged");
    if (isThere) return [{ check, state: "ok", text: `${home} has its block` }];
    const text = `${home} has no AGENTS.md with a block: only DIGEST.md is written.`;
    return [{ check, state: "warn", text, remedy: "`tertulia digest install` adds it." }];
  } catch (cause) {
    return [failed(check, cause)];
  }
}

/** A1, A11: said once, in plain words. */
function openDoorFindings({ http }: Config): readonly Finding[] {
  const check = "access";
  if (isLoopback(http.host))
    return [{ check, state: "ok", text: `HTTP on ${http.host} only, for ${trustedOverHttp(http)}` }];
  return [
    {
      check,
      state: "warn",
      text: `HTTP on ${http.host} is open to other machines: there, whoever bears a token gets in, and tokens travel unencrypted.`,
      remedy: "Set http.host to 127.0.0.1, or put a proxy with TLS in front of it.",
    },
  ];
}

/** A11: what a forwarder passes on comes from the forwarder's user. */
function forwarderFindings({ http }: Config): readonly Finding[] {
  const uid = http.token === "auto" ? trustedUid() : http.token === "loopback" ? "any" : null;
  const names = uid === null ? [] : forwardersOf(uid);
  if (names.length === 0) return [];
  return [
    {
      check: "access",
      state: "warn",
      text: `${names.join(", ")} runs here: whoever comes in through it, from anywhere, would be the owner without a token.`,
      remedy: "Set http.token: always if it leads to the gateway (docs/access.md).",
    },
  ];
}

/** A1: nobody gets in where nobody was let in. */
function silenceFinding(platform: Platform): Finding {
  return {
    check: "access",
    state: "warn",
    text: `Nobody is let in on ${platform}, where agents have accounts.`,
    remedy: `Name people with accounts there, or say access.${platform} (docs/access.md).`,
  };
}

/** Runtimes whose agents run commands of their own choice. */
const WITH_SHELL: readonly string[] = ["acp", "hermes"];

/** A6: an agent with a shell does what it is talked into, with the rights of the user it runs as. */
function shellFindings({ agents, runtimes, access }: Config): readonly Finding[] {
  return Object.values(agents).flatMap(({ name, runtime, accounts }) => {
    const { kind } = runtimes[runtime]!;
    const rooms = accounts.flatMap((account) => account.rooms.map(({ jid }) => jid));
    const isOpen = accounts.some(({ platform }) => access[platform]?.open === true);
    if (!WITH_SHELL.includes(kind) || (rooms.length === 0 && !isOpen)) return [];
    const who = [...(isOpen ? ["whoever writes to it"] : []), ...rooms.map((room) => `what is said in ${room}`)];
    return [
      {
        check: "shell",
        state: "warn" as const,
        text: `${name} runs on ${kind}, can run commands as its own user, and is reached by ${who.join(", ")}.`,
        remedy: "Let in only whom you would let at that user's shell, or give it a user of its own (docs/access.md).",
      },
    ];
  });
}
