import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { Config } from "../config/config.ts";
import { DEFAULT_DIGEST, type Digest, readDigest } from "../digest/digest.ts";
import {
  blockProblem,
  type FileChange,
  type FileOptions,
  installDigest,
  isChange,
  uninstallDigest,
  writeDigest,
} from "../digest/files.ts";
import { type Rendering, renderShown } from "../digest/render.ts";
import { type Language, WORDS } from "../digest/words.ts";
import { TertuliaError } from "../errors.ts";
import { output, printable } from "./output.ts";
import { ownersIn } from "./owner-flag.ts";

/**
 * `tertulia digest`: with `--state` it reads a state.db of Hermes and needs nothing else of this program, which is why configuration,
 * store and client are loaded only without it: a clock calls it every five minutes, on small machines.
 */
export interface DigestFlags {
  /** Where the files are. Not the state folder of the gateway: that is TERTULIA_HOME's. */
  readonly home?: string;
  readonly config?: string;
  readonly state?: string;
  readonly owner?: readonly string[];
  readonly lang?: string;
  readonly json?: boolean;
  readonly iAcceptGroupLeak?: boolean;
}

/** Prints nothing when nothing has changed. */
export async function digestRun(flags: DigestFlags): Promise<void> {
  const { digest, home, rendering } = await gathered(flags);
  const folder = homeOr(home, "--home");
  const { files, warnings } = writeDigest(digest, rendering, fileOptions(folder));
  if (flags.json) output(JSON.stringify({ files, notes: digest.notes, warnings }));
  else if (files.some(isChange)) output(printable([...files.map(changeLine), ...digest.notes].join("\n")));
  if (!flags.json) for (const warning of warnings) process.stderr.write(`${printable(warning)}\n`);
  const problem = blockProblem(folder, files);
  if (problem !== null) throw problem;
}

/** What the files would say now, with the age of each section. */
export async function digestShow(flags: DigestFlags): Promise<void> {
  const { digest, rendering, idleMinutes } = await gathered(flags);
  if (flags.json) {
    output(JSON.stringify(digest));
    return;
  }
  const notes = digest.notes.length === 0 ? [] : ["", ...digest.notes];
  output(printable([renderShown(digest, { ...rendering, idleMinutes, now: Date.now() }), ...notes].join("\n")));
}

export async function digestInstall(flags: DigestFlags): Promise<void> {
  const { home, lang } = await placed(flags);
  const folder = homeOr(home, "--home");
  const options = fileOptions(folder);
  const state = stateOf(flags, folder);
  const notes = await readersOf(state, flags, options.now);
  const { files, warnings } = installDigest(lang, options);
  const recipe = await import("../digest/hermes/cron-recipe.ts");
  const text = recipe.cronRecipe({
    home: folder,
    state: state ?? join(folder, "state.db"),
    lang,
    owners: flags.owner ?? [],
    command: [process.execPath, process.argv[1] ?? "tertulia"],
  });
  if (flags.json) {
    output(JSON.stringify({ files, warnings: [...notes, ...warnings], recipe: text }));
    return;
  }
  const said = [...files.map(changeLine), ...[...notes, ...warnings].map((warning) => `Note: ${warning}`)];
  output(printable([...said, "", state === null ? recipe.withoutHermes(folder) : text].join("\n")));
}

export async function digestUninstall(flags: DigestFlags): Promise<void> {
  const { home } = await placed(flags);
  const folder = homeOr(home, "--home");
  const files = uninstallDigest(fileOptions(folder));
  const { cronLeft } = await import("../digest/hermes/cron-recipe.ts");
  const left = cronLeft(folder);
  if (flags.json) output(JSON.stringify({ files, left }));
  else output(printable([...files.map(changeLine), ...(left === null ? [] : ["", left])].join("\n")));
}

/** D9: who else reads the files. Throws `digest_group_leak` unless that was accepted; else says it. */
async function readersOf(state: string | null, flags: DigestFlags, now: number): Promise<string[]> {
  const readers = state === null ? await ownReaders(flags) : await hermesReaders(state, flags, now);
  if (readers.length > 0 && flags.iAcceptGroupLeak !== true) {
    throw new TertuliaError(
      "digest_group_leak",
      `Others than the owner would read the digest: ${readers.join(" ")} Every session of this home reads its context files.`,
    );
  }
  return readers;
}

async function hermesReaders(path: string, flags: DigestFlags, now: number): Promise<string[]> {
  const { otherReaders } = await import("../digest/hermes/other-readers.ts");
  return otherReaders({ path, owners: ownersIn(flags), now });
}

async function ownReaders(flags: DigestFlags): Promise<string[]> {
  const [config, own] = await Promise.all([configured(flags), import("./digest-source.ts")]);
  return own.ownReaders(config);
}

interface Placed {
  readonly home: string | null;
  readonly lang: Language;
  readonly config: Config | null;
}

/** Where the files are, and in which language. The configuration is asked only for what no flag says. */
async function placed(flags: DigestFlags): Promise<Placed> {
  const config = flags.home || flags.state !== undefined ? null : await configured(flags);
  const home = flags.home ? absolute(flags.home) : (config?.digest.home ?? null);
  return { home, lang: languageOf(flags.lang ?? config?.digest.lang ?? "en"), config };
}

interface Gathered extends Placed {
  readonly digest: Digest;
  readonly rendering: Rendering;
  readonly idleMinutes: number;
}

async function gathered(flags: DigestFlags): Promise<Gathered> {
  if (flags.state !== undefined) {
    const place = await placed(flags);
    const { createHermesTalks } = await import("../digest/hermes/talks.ts");
    const source = createHermesTalks({ path: absolute(flags.state), owners: ownersIn(flags) });
    const digest = await readDigest(source, DEFAULT_DIGEST, Date.now());
    return { ...place, digest, rendering: { lang: place.lang }, idleMinutes: DEFAULT_DIGEST.idleMinutes };
  }
  const config = await configured(flags);
  const { ownDigest } = await import("./digest-source.ts");
  const home = flags.home ? absolute(flags.home) : config.digest.home;
  const lang = languageOf(flags.lang ?? config.digest.lang);
  const rendering = { lang, timezone: config.timezone };
  return { home, lang, config, digest: await ownDigest(config), rendering, idleMinutes: config.digest.idleMinutes };
}

async function configured({ config }: DigestFlags): Promise<Config> {
  const { loadConfig } = await import("../config/config.ts");
  return loadConfig({ flags: { config } });
}

/** Hermes' file: the one that is named, else the one of the home. */
function stateOf({ state }: DigestFlags, home: string): string | null {
  if (state !== undefined) return absolute(state);
  const beside = join(home, "state.db");
  return existsSync(beside) ? beside : null;
}

function languageOf(lang: string): Language {
  if (Object.hasOwn(WORDS, lang)) return lang as Language;
  throw new TertuliaError("usage", `--lang ${lang} is not allowed; allowed: ${Object.keys(WORDS).join(", ")}.`);
}

function homeOr(home: string | null, flag: string): string {
  if (home !== null) return home;
  throw new TertuliaError(
    "digest_home",
    `It is not said where the files are: ${flag} is missing, and digest.home is not set.`,
  );
}

function absolute(path: string): string {
  return resolve(path.replace(/^~(?=\/|$)/, () => homedir()));
}

function fileOptions(home: string): FileOptions {
  return { home, now: Date.now(), nonce: () => randomBytes(6).toString("hex") };
}

const SAID: Readonly<Record<Exclude<FileChange["change"], "damaged">, string>> = {
  written: "written",
  created: "created",
  unchanged: "unchanged",
  removed: "removed",
  "no file": "there is none; `tertulia digest install` makes it",
  "only quoted": "it speaks of the markers, but has no block; `tertulia digest install` adds it",
  "no block": "it has no block; `tertulia digest install` adds it",
};

function changeLine(file: FileChange): string {
  return `${file.file}: ${file.change === "damaged" ? `unchanged, its block is damaged (${file.why})` : SAID[file.change]}`;
}
