import { existsSync, statfsSync } from "node:fs";
import { basename, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Command } from "commander";
import type { AgentConfig, Config, ConfigFlags, RuntimeConfig } from "../config/config.ts";
import { silentPlatforms } from "../config/reload.ts";
import { blockProblem, lookAtBlock } from "../digest/files.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { type Judgement, judge, lostSessions } from "../gateway/judge.ts";
import { ownerTokenIn } from "../gateway/owner-token.ts";
import { createRuntimes } from "../gateway/runtimes.ts";
import { nearestFolder, requireWritable } from "../gateway/start.ts";
import { trustedUid } from "../http/peer.ts";
import { type ProxyHosts, proxyHosts } from "../http/routes/status.ts";
import { tryAddress } from "../http/server.ts";
import type { Platform } from "../message/source.ts";
import { Workspaces } from "../runtime/acp/workspace.ts";
import type { RefusedRow } from "../store/rows.ts";
import { Database } from "../store/sqlite/database.ts";
import { type LockHolder, readLock } from "../store/sqlite/lock.ts";
import { checkFile, hasState, openSqliteReader, type StateFiles } from "../store/sqlite/sqlite-store.ts";
import { systemClock } from "../util/clock.ts";
import { rightsOfOthers } from "../util/rights.ts";
import { when } from "../util/when.ts";
import { isLoopback, trustedOverHttp } from "./access-summary.ts";
import { lookAtGateway, type RunningGateway } from "./doctor-gateway.ts";
import { type Finding, failed } from "./finding.ts";
import { forwardersOf } from "./forwarders.ts";
import { output } from "./output.ts";
import { readState, sessionById } from "./state.ts";
import { plural, table } from "./table.ts";

const NODE_MAJOR = 24;
const LITTLE_SPACE = 200 * 2 ** 20;
const NO_SPACE = 20 * 2 ** 20;
const REFUSED_LIMIT = 1_000;
const PROBE_MS = 10_000;

export function doctorCommand(command: Command): void {
  command
    .option("--json", "print the findings as JSON")
    .addHelpText("after", "\nExit codes: 0 nothing failed; 1 a check failed; 3 the state or the machine is not usable.")
    .action(() => doctor(command.optsWithGlobals()));
}

/** `tertulia doctor`: one line for each thing that has to be right. Changes nothing. Exit code 0, 1 (a check failed) or 3 (unusable). */
async function doctor({ json, ...flags }: ConfigFlags & { json?: boolean }): Promise<void> {
  const findings = [nodeFinding(), ...(await findingsOf(flags))];
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

/** The configuration first: what it says is looked at as far as it can be read (E6). */
async function findingsOf(flags: ConfigFlags): Promise<readonly Finding[]> {
  let judgement: Judgement;
  try {
    judgement = judge({ flags });
  } catch (cause) {
    return [failed("configuration", cause)];
  }
  const { config, problems } = judgement;
  const isGood = problems.length === 0;
  const [lock, holder] = lockFinding(config);
  const gateway = holder === null ? null : await lookAtGateway(config, isGood);
  return [
    ...configurationFindings(judgement),
    ...machineFindings(config),
    lock,
    ...(gateway === null ? [] : gateway.findings),
    ...(await contentFindings(config, holder)),
    ...(isGood && holder === null ? [await addressFinding(config)] : []),
    ...(isGood ? await doorFindings(config, gateway) : []),
  ];
}

function configurationFindings({ config, problems, warnings }: Judgement): Finding[] {
  const check = "configuration";
  const remedy = "`tertulia config check` shows it too; agents and doors are looked at when it is right.";
  const file = config.files.config ?? "no file: everything at its default";
  return [
    ...(problems.length === 0 ? [{ check, state: "ok" as const, text: file }] : []),
    ...problems.map((text, n) => ({ check, state: "fail" as const, text, ...(n === 0 ? { remedy } : {}) })),
    ...warnings.map((text) => ({ check, state: "warn" as const, text })),
  ];
}

function machineFindings(config: Config): readonly Finding[] {
  return [folderFinding(config.home), ...fileFindings(config), ...tokenFindings(config), diskFinding(config.home)];
}

async function contentFindings(config: Config, holder: LockHolder | null): Promise<readonly Finding[]> {
  const schema = schemaFinding(config.files);
  // What cannot be read is said once.
  if (schema.state !== "ok") return [schema];
  return [
    schema,
    contentFinding(config.files.state, holder),
    await refusedFinding(config),
    ...(await workspaceFindings(config)),
    ...(await lostFindings(config)),
  ];
}

/** Agents and who reaches them; as the gateway runs them where it says so. */
async function doorFindings(config: Config, gateway: RunningGateway | null): Promise<readonly Finding[]> {
  const asRun = gateway?.asRun ?? null;
  const agents = Object.values(config.agents);
  const http = asRun?.http ?? config.http;
  return [
    ...proxyFindings(proxyHosts(config.proxies), asRun?.proxies ?? null),
    ...(asRun === null ? await Promise.all(agents.map((agent) => agentFinding(config, agent))) : []),
    ...openDoorFindings(http),
    ...forwarderFindings(http),
    ...silentPlatforms(config).map(silenceFinding),
    ...agents.flatMap((agent) =>
      shellFindings(config, agent, asRun?.kinds.get(agent.name) ?? config.runtimes[agent.runtime]!.kind),
    ),
    ...digestFindings(config),
  ];
}

// ---- the machine

function folderFinding(home: string): Finding {
  const check = "state folder";
  try {
    requireWritable(home);
  } catch (cause) {
    return failed(check, cause);
  }
  if (!existsSync(home)) return { check, state: "ok", text: `${home} is not there yet; \`tertulia start\` makes it.` };
  return rightsFinding(check, home, "0700") ?? { check, state: "ok", text: `${home}, yours alone` };
}

function tokenFindings({ files }: Config): readonly Finding[] {
  try {
    if (existsSync(files.token)) ownerTokenIn(files.token);
    return [];
  } catch (cause) {
    return [failed("token", cause)];
  }
}

async function addressFinding(config: Config): Promise<Finding> {
  const check = "address";
  const { host, port } = config.http;
  try {
    await tryAddress(config);
    return { check, state: "ok", text: `${host}:${port} can be listened on` };
  } catch (cause) {
    return failed(check, cause);
  }
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

function proxyFindings(own: ProxyHosts, asRun: ProxyHosts | null): readonly Finding[] {
  const check = "proxy";
  const text = `models are asked ${waysOf(own)} (HTTP_PROXY, HTTPS_PROXY); never this machine${exceptionsOf(own)}`;
  const isUsed = own.http !== undefined || own.https !== undefined;
  const differs = asRun !== null && !isDeepStrictEqual(own, asRun);
  return [
    ...(isUsed ? [{ check, state: "ok" as const, text: differs ? `${text}, by this shell's variables` : text }] : []),
    ...(differs
      ? [
          {
            check,
            state: "warn" as const,
            text: `The gateway asks models ${waysOf(asRun)}${exceptionsOf(asRun)}: it was started with other variables than this shell's.`,
          },
        ]
      : []),
  ];
}

function waysOf({ http, https }: ProxyHosts): string {
  const ways = [
    ...(http === undefined ? [] : [`http through ${http}`]),
    ...(https === undefined ? [] : [`https through ${https}`]),
  ];
  return ways.length === 0 ? "directly" : `by ${ways.join(", ")}`;
}

function exceptionsOf({ except }: ProxyHosts): string {
  return except === "" ? "" : `, nor what NO_PROXY names (${except})`;
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

async function lostFindings(config: Config): Promise<readonly Finding[]> {
  const lost = await Array.fromAsync(lostSessions(config, (id) => sessionById(config, id)));
  return lost.map((text) => ({ check: "configuration", state: "warn", text }));
}

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
function openDoorFindings(http: Config["http"]): readonly Finding[] {
  const check = "access";
  if (isLoopback(http.host))
    return [{ check, state: "ok", text: `HTTP on ${http.host} only, for ${trustedOverHttp(http)}` }];
  return [
    {
      check,
      state: "warn",
      text: `HTTP on ${http.host} is open to other machines: there, whoever has a token gets in, and tokens travel unencrypted.`,
      remedy: "Set http.host to 127.0.0.1, or put a proxy with TLS in front of it.",
    },
  ];
}

/** A11: what a forwarder passes on comes from the forwarder's user. */
function forwarderFindings(http: Config["http"]): readonly Finding[] {
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
function shellFindings(
  { access }: Config,
  { name, accounts }: AgentConfig,
  kind: RuntimeConfig["kind"],
): readonly Finding[] {
  const rooms = accounts.flatMap((account) => account.rooms.map(({ jid }) => jid));
  const isOpen = accounts.some(({ platform }) => access[platform]?.open === true);
  if (!WITH_SHELL.includes(kind) || (rooms.length === 0 && !isOpen)) return [];
  const who = [...(isOpen ? ["whoever writes to it"] : []), ...rooms.map((room) => `what is said in ${room}`)];
  return [
    {
      check: "shell",
      state: "warn",
      text: `${name} runs on ${kind}, can run commands as its own user, and is reached by ${who.join(", ")}.`,
      remedy: "Let in only whom you would let at that user's shell, or give it a user of its own (docs/access.md).",
    },
  ];
}
