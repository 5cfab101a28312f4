import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
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
import { type InstallNote, readNote, writeNote } from "../digest/install-note.ts";
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

const EMPTY: Digest = { sections: [], notes: [] };

export function digestCommand(digest: Command): void {
  const subcommand = (name: string, description: string, flags = "") =>
    digest
      .command(name)
      .description(description)
      .option("--json", "print it as JSON")
      .addHelpText(
        "after",
        `\n--home names the folder of the files here (default digest.home); the state folder is TERTULIA_HOME's.\nExample: tertulia digest ${name} --home ~/.hermes${flags}`,
      );
  const reading = (name: string, description: string) =>
    subcommand(name, description, " --state ~/.hermes/state.db")
      .option("--state <path>", "a state.db of Hermes, instead of the gateway's own state")
      .option("--owner <platform:id...>", "with --state: whose direct chats are the owner's, as in telegram:42")
      .option("--lang <en|zh>", "the language of the words around what was said (default digest.lang, else en)");
  reading("run", "write the files, if anything has changed; else print nothing").action((_options, command) =>
    digestRun(command.optsWithGlobals()),
  );
  reading("show", "print what was said last at each door, and how long ago").action((_options, command) =>
    digestShow(command.optsWithGlobals()),
  );
  reading("install", "add the block to AGENTS.md and the guide to SOUL.md, and say how to run it by a clock")
    .option("--i-accept-group-leak", "although others than the owner read these files")
    .action((_options, command) => digestInstall(command.optsWithGlobals()));
  // The same words as for `run` are taken; what they say does not matter here.
  subcommand("uninstall", "take the block, the guide and the file away again")
    .addOption(new Option("--state <path>").hideHelp())
    .addOption(new Option("--lang <language>").hideHelp())
    .action((_options, command) => digestUninstall(command.optsWithGlobals()));
}

/** Prints nothing when nothing has changed. */
async function digestRun(flags: DigestFlags): Promise<void> {
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
async function digestShow(flags: DigestFlags): Promise<void> {
  const { digest, rendering, idleMinutes } = await gathered(flags);
  if (flags.json) {
    output(JSON.stringify(digest));
    return;
  }
  const notes = digest.notes.length === 0 ? [] : ["", ...digest.notes];
  output(printable([renderShown(digest, { ...rendering, idleMinutes, now: Date.now() }), ...notes].join("\n")));
}

/** Adds what is missing, and fills the files: what the next run finds is what they say already. */
async function digestInstall(flags: DigestFlags): Promise<void> {
  const place = await placed(flags);
  const folder = homeOr(place.home, "--home");
  const options = fileOptions(folder);
  const notes = await readersOf(place, options.now);
  const { digest, rendering } = await readAt(place, options.now);
  const installed = installDigest(place.lang, options);
  const filled = writeDigest(digest ?? EMPTY, rendering, options);
  writeNote(folder, place, options);
  const files = [
    ...installed.files,
    ...filled.files.filter(({ file }) => installed.files.every((other) => other.file !== file)),
  ];
  const warnings = [...new Set([...notes, ...installed.warnings, ...filled.warnings])];
  const recipe = await import("../digest/hermes/cron-recipe.ts");
  const { state, lang, owners } = place;
  const text = recipe.cronRecipe({
    home: folder,
    state: state ?? join(folder, "state.db"),
    lang,
    owners,
    command: [process.execPath, process.argv[1] ?? "tertulia"],
  });
  if (flags.json) {
    output(JSON.stringify({ files, warnings, recipe: text }));
    return;
  }
  const said = [...files.map(changeLine), ...warnings.map((warning) => `Note: ${warning}`)];
  output(printable([...said, "", state === null ? recipe.withoutHermes(folder) : text].join("\n")));
}

async function digestUninstall(flags: DigestFlags): Promise<void> {
  const home = flags.home ? absolute(flags.home) : (await configured(flags)).digest.home;
  const folder = homeOr(home, "--home");
  const files = uninstallDigest(fileOptions(folder));
  const { cronLeft } = await import("../digest/hermes/cron-recipe.ts");
  const left = cronLeft(folder);
  if (flags.json) output(JSON.stringify({ files, left }));
  else output(printable([...files.map(changeLine), ...(left === null ? [] : ["", left])].join("\n")));
}

/** D9: who else reads the files. Throws `digest_group_leak` unless that was accepted; else says it. */
async function readersOf({ state, owners, config, flags }: Place, now: number): Promise<string[]> {
  const readers = state === null ? await ownReaders(config) : await hermesReaders(state, owners, now);
  if (readers.length > 0 && flags.iAcceptGroupLeak !== true) {
    throw new TertuliaError(
      "digest_group_leak",
      `Others than the owner would read the digest: ${readers.join(" ")} Every session of this home reads its context files.`,
    );
  }
  return readers;
}

async function hermesReaders(path: string, owners: readonly string[], now: number): Promise<string[]> {
  const { otherReaders } = await import("../digest/hermes/other-readers.ts");
  return otherReaders({ path, owners, now });
}

async function ownReaders(config: () => Promise<Config>): Promise<string[]> {
  const own = await import("./digest-source.ts");
  return own.ownReaders(await config());
}

/** Where the files are, and what they tell of. */
interface Place extends InstallNote {
  readonly home: string | null;
  readonly lang: Language;
  readonly config: () => Promise<Config>;
  readonly flags: DigestFlags;
}

/**
 * One rule for every command. A state.db of Hermes is read where `--state` names it, else the one that `install` was told of for this
 * `--home`, else the one that stands in it; otherwise, and with the home of the configuration, it is our own store. The configuration is asked only
 * for what nothing else says.
 */
async function placed(flags: DigestFlags): Promise<Place> {
  const config = once(() => configured(flags));
  const given = flags.home ? absolute(flags.home) : null;
  const note = given === null ? null : readNote(given);
  const state = flags.state === undefined ? (note?.state ?? stateIn(given)) : absolute(flags.state);
  const home = given ?? (state === null ? (await config()).digest.home : null);
  const lang = flags.lang ?? note?.lang ?? (state === null ? (await config()).digest.lang : "en");
  const owners = flags.owner === undefined ? (note?.owners ?? []) : ownersIn(flags);
  return { home, state, owners, lang: languageOf(lang), config, flags };
}

function stateIn(home: string | null): string | null {
  const beside = home === null ? null : join(home, "state.db");
  return beside !== null && existsSync(beside) ? beside : null;
}

function once<T>(call: () => Promise<T>): () => Promise<T> {
  let called: Promise<T> | undefined;
  return () => (called ??= call());
}

interface Gathered {
  readonly digest: Digest;
  readonly rendering: Rendering;
  readonly idleMinutes: number;
}

/** `digest` is null where there is no state of our own yet. */
async function readAt(
  { state, owners, lang, config }: Place,
  now: number,
): Promise<Omit<Gathered, "digest"> & { digest: Digest | null }> {
  if (state !== null) {
    const { createHermesTalks } = await import("../digest/hermes/talks.ts");
    const digest = await readDigest(createHermesTalks({ path: state, owners }), DEFAULT_DIGEST, now);
    return { digest, rendering: { lang }, idleMinutes: DEFAULT_DIGEST.idleMinutes };
  }
  const own = await config();
  const { ownDigest } = await import("./digest-source.ts");
  return {
    digest: await ownDigest(own),
    rendering: { lang, timezone: own.timezone },
    idleMinutes: own.digest.idleMinutes,
  };
}

/** Throws `usage` where there is no state of our own yet: nothing is no digest, and would take away what another run has written. */
async function gathered(flags: DigestFlags): Promise<Gathered & { home: string | null }> {
  const place = await placed(flags);
  const { digest, ...rest } = await readAt(place, Date.now());
  if (digest !== null) return { home: place.home, digest, ...rest };
  throw new TertuliaError(
    "usage",
    `There is nothing to tell of: there is no state in ${(await place.config()).home} yet.`,
    {
      remedy: "Start the gateway with `tertulia start`, or name a state.db of Hermes with --state.",
    },
  );
}

async function configured({ config }: DigestFlags): Promise<Config> {
  const { loadConfig } = await import("../config/config.ts");
  return loadConfig({ flags: { config } });
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
