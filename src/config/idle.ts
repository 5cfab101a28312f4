/** Settings that are right and do nothing here: each with why (E6). What has no effect is mostly a slip, or meant for something else. */

import { parseSessionKey } from "../conversation/session-key.ts";
import { isLocalDoor, type Platform } from "../message/source.ts";
import type { Config } from "./config.ts";
import { ACCOUNT_PLATFORMS, PUSH_PLATFORMS } from "./schema.ts";

interface Idle {
  readonly path: string;
  readonly why: string;
}

export function* idleSettings(config: Config): Generator<Idle> {
  yield* atNoDoor(config);
  yield* inNoRoom(config);
  yield* behindOpenDoors(config);
  yield* besideModes(config);
  yield* ofNoAccount(config);
  yield* behindVariables(config);
  const isSaid = (path: string): boolean => config.origins[path] === "file";
  if (isSaid("session.group_sessions_per_user") && config.session.groupSessionsPerUser)
    yield {
      path: "session.group_sessions_per_user",
      why: "rooms of xmpp are one conversation for all (K14), and there are no others",
    };
  for (const key of ["thread_sessions_per_user", "thread_scope"])
    if (isSaid(`session.${key}`) && !hasRooms(config)) yield { path: `session.${key}`, why: NO_ROOMS };
  if (isSaid("digest.interval") && config.digest.home === null)
    yield { path: "digest.interval", why: "without digest.home no files are kept" };
}

/** Null where messages can come from there. */
function whyNobodyWrites({ agents }: Config, platform: Platform): string | null {
  if (isLocalDoor(platform)) return null;
  if (!ACCOUNT_PLATFORMS.some((known) => known === platform)) return `this Tertulia has no channel for ${platform}`;
  const isThere = Object.values(agents).some(({ accounts }) =>
    accounts.some((account) => account.platform === platform),
  );
  return isThere ? null : `no agent has an account on ${platform}`;
}

function* atNoDoor(config: Config): Generator<Idle> {
  const { access, platforms, reset, people, rooms, chats } = config;
  const named: [path: string, platform: Platform][] = [
    ...Object.keys(access).map((name): [string, Platform] => [`access.${name}`, name as Platform]),
    ...Object.keys(platforms).map((name): [string, Platform] => [`platforms.${name}`, name as Platform]),
    ...Object.keys(reset.platforms).map((name): [string, Platform] => [`reset.platforms.${name}`, name as Platform]),
    ...Object.values(people).flatMap(({ id, accounts }) =>
      accounts.map(({ platform }, n): [string, Platform] => [`people.${id}.accounts.${n}`, platform]),
    ),
    ...Object.entries(rooms).flatMap(([name, { chat, conversation }]): [string, Platform][] => {
      const platform = chat?.platform ?? platformOf(conversation ?? "");
      return platform === null ? [] : [[`rooms.${name}`, platform]];
    }),
    ...keyed("chats", chats),
    ...keyed("reset.chats", reset.chats),
  ];
  for (const [path, platform] of named) {
    const why = whyNobodyWrites(config, platform);
    if (why !== null) yield { path, why };
  }
  for (const type of Object.keys(reset.types).filter((type) => type !== "dm"))
    if (!hasRooms(config)) yield { path: `reset.types.${type}`, why: NO_ROOMS };
}

const NO_ROOMS = "no agent has an account on a platform with rooms";

function hasRooms(config: Config): boolean {
  return PUSH_PLATFORMS.some((platform) => whyNobodyWrites(config, platform) === null);
}

function keyed(path: string, byKey: Readonly<Record<string, unknown>>): [string, Platform][] {
  return Object.keys(byKey).flatMap((key): [string, Platform][] => {
    const platform = platformOf(key);
    return platform === null ? [] : [[`${path}.${key}`, platform]];
  });
}

/** Null for a key that names no platform. */
function platformOf(key: string): Platform | null {
  const parts = key === "" ? null : parseSessionKey(key);
  return parts?.form === "chat" ? parts.platform : null;
}

/** Rooms that no account is in. */
function* inNoRoom(config: Config): Generator<Idle> {
  const { agents, access, rooms } = config;
  const isIn = (platform: Platform, room: string): boolean =>
    Object.values(agents).some(({ accounts }) =>
      accounts.some((account) => account.platform === platform && account.rooms.some(({ jid }) => jid === room)),
    );
  const why = "no account of an agent is in that room (agents.<name>.accounts, rooms)";
  for (const [platform, listed] of accessLists(access)) {
    if (whyNobodyWrites(config, platform) !== null) continue;
    for (const [n, room] of (listed.rooms ?? []).entries())
      if (!isIn(platform, room)) yield { path: `access.${platform}.rooms.${n}`, why };
  }
  for (const [name, { chat }] of Object.entries(rooms))
    if (chat !== undefined && whyNobodyWrites(config, chat.platform) === null && !isIn(chat.platform, chat.id))
      yield { path: `rooms.${name}`, why };
}

function accessLists(access: Config["access"]): [Platform, NonNullable<Config["access"][Platform]>][] {
  return Object.entries(access) as [Platform, NonNullable<Config["access"][Platform]>][];
}

function* behindOpenDoors({ access }: Config): Generator<Idle> {
  for (const [platform, listed] of accessLists(access))
    for (const list of ["people", "rooms"] as const)
      if (listed.open && listed[list] !== null)
        yield { path: `access.${platform}.${list}`, why: `access.${platform}.open lets everybody in` };
}

/** Limits of a reset policy that its mode does not use. */
function* besideModes({ reset, origins }: Config): Generator<Idle> {
  const policies = [
    ["reset.default", reset.default] as const,
    ...(["platforms", "types", "chats"] as const).flatMap((layer) =>
      Object.entries(reset[layer]).map(([name, policy]) => [`reset.${layer}.${name}`, policy] as const),
    ),
  ];
  const unused: Readonly<Record<string, readonly string[]>> = {
    none: ["idle_minutes", "at_hour", "timezone", "notify"],
    idle: ["at_hour", "timezone"],
    daily: ["idle_minutes"],
    both: [],
  };
  for (const [path, { mode }] of policies)
    for (const key of unused[mode] ?? [])
      if (origins[`${path}.${key}`] === "file") yield { path: `${path}.${key}`, why: `mode ${mode} does not use it` };
}

function* ofNoAccount({ agents, origins }: Config): Generator<Idle> {
  for (const { name, accounts } of Object.values(agents)) {
    for (const key of ["answer", "mention_format"])
      if (accounts.length === 0 && origins[`agents.${name}.${key}`] === "file")
        yield { path: `agents.${name}.${key}`, why: "the agent has no account, so it is in no room" };
    for (const [n, { tls }] of accounts.entries())
      if (tls?.insecure && tls.ca !== undefined)
        yield { path: `agents.${name}.accounts.${n}.tls.ca`, why: "insecure takes any certificate" };
  }
}

/** TERTULIA_MODEL_URL stands for the whole runtime. */
function* behindVariables({ agents, origins }: Config): Generator<Idle> {
  for (const { name } of Object.values(agents)) {
    const path = `agents.${name}.runtime`;
    if (origins[`${path}.kind`] === "env" && origins[path] === "file")
      yield { path, why: "TERTULIA_MODEL_URL and TERTULIA_MODEL_NAME go before it" };
  }
}
