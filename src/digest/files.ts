import { existsSync, mkdirSync, readdirSync, realpathSync, rmdirSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { TertuliaError } from "../errors.ts";
import {
  addBlock,
  type Damage,
  DIGEST_MARKERS,
  type Found,
  fillBlock,
  findBlock,
  GUIDE_MARKERS,
  type Markers,
  removeBlock,
} from "./block.ts";
import type { Digest } from "./digest.ts";
import { removeNote } from "./install-note.ts";
import { lengthOf, type Rendering, renderCompact, renderFull } from "./render.ts";
import { type ReplaceOptions, readBytes, replaceFile } from "./replace-file.ts";
import { type Language, WORDS, type Words } from "./words.ts";

/**
 * The three files of a home (D7): `shared-context/DIGEST.md` is ours, of `AGENTS.md` the block between the markers, of `SOUL.md` the guide.
 * Everything else in them is somebody's, and stays to the byte.
 */

const FULL = join("shared-context", "DIGEST.md");
const AGENTS = "AGENTS.md";
const SOUL = "SOUL.md";
/** What was said in private stands in them. */
const PRIVATE = 0o600;
/** Hermes shows no more of a context file than its beginning and its end. */
const CONTEXT_FILE_MOST = 20_000;

const DIGEST_LABEL = "— written by `tertulia digest`; what stands here is replaced";
const GUIDE_LABEL = "— written by `tertulia digest install`";

export interface FileOptions {
  readonly home: string;
  readonly nonce: () => string;
  readonly now: number;
}

export type FileChange =
  | {
      readonly file: string;
      readonly change: "written" | "created" | "unchanged" | "removed" | "no file" | "no block" | "only quoted";
    }
  | { readonly file: string; readonly change: "damaged"; readonly why: Damage };

export function isChange({ change }: FileChange): boolean {
  return change === "written" || change === "created" || change === "removed";
}

/** What was done to the files of a home, and what a person should know of them: sentences. */
export interface Written {
  readonly files: readonly FileChange[];
  readonly warnings: readonly string[];
}

/** Writes what has changed. A damaged block is left as it is, and said; where there is none, nothing is made (`installDigest` does). */
export function writeDigest(digest: Digest, rendering: Rendering, options: FileOptions): Written {
  const { home } = options;
  requireHome(home);
  return asSentence(home, () => {
    const full = writeWhole(join(home, FULL), renderFull(digest, rendering), options);
    const block = inBlock(join(home, AGENTS), DIGEST_MARKERS, renderCompact(digest, rendering), options);
    const files: FileChange[] = [
      { file: FULL, change: full },
      { file: AGENTS, ...block },
    ];
    return { files, warnings: digestWarnings(home) };
  });
}

/** Why the block of a home does not reach its reader though the file was there to be written; null where nothing is wrong. */
export function blockProblem(home: string, files: readonly FileChange[]): TertuliaError | null {
  for (const file of files) {
    const path = join(home, file.file);
    if (file.change === "damaged") return damaged(path, file.why);
    if (file.change === "only quoted")
      return new TertuliaError(
        "digest_damaged",
        `${path} speaks of the markers, but has no block. It was not changed.`,
        {
          remedy:
            "`tertulia digest install` adds the block: each marker is a line of its own outside quotations and code.",
        },
      );
  }
  return null;
}

/** D7: what keeps the block from a reader that cuts its context files. */
function digestWarnings(home: string): readonly string[] {
  const agents = readBytes(join(home, AGENTS))?.toString("utf8") ?? "";
  if (lengthOf(agents) <= CONTEXT_FILE_MOST) return [];
  return [
    `${AGENTS} has more than ${CONTEXT_FILE_MOST.toLocaleString("en")} characters: Hermes leaves out its middle, and the block may be there. Shorten it, or move the block to its beginning.`,
  ];
}

function writeWhole(path: string, text: string, options: FileOptions): "written" | "unchanged" {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  return replaceFile(path, () => Buffer.from(text), replacing(options)) ? "written" : "unchanged";
}

function replacing({ nonce, now }: FileOptions): ReplaceOptions {
  return { nonce, now, mode: PRIVATE };
}

type BlockChange =
  | { readonly change: "written" | "unchanged" | "no file" | "no block" | "only quoted" }
  | { readonly change: "damaged"; readonly why: Damage };

function inBlock(path: string, markers: Markers, content: string, options: FileOptions): BlockChange {
  let result: BlockChange = { change: "no file" };
  const isWritten = replaceFile(
    path,
    (bytes) => {
      if (bytes === null) return null;
      const block = findBlock(bytes, markers);
      result = untouched(block);
      return block.kind === "block" ? fillBlock(bytes, block, content) : null;
    },
    replacing(options),
  );
  return isWritten ? { change: "written" } : result;
}

function untouched(block: Found): BlockChange {
  if (block.kind === "damaged") return { change: "damaged", why: block.why };
  if (block.kind === "absent") return { change: block.isQuoted ? "only quoted" : "no block" };
  return { change: "unchanged" };
}

/** How the block of a home stands, and what keeps it from its reader. Changes nothing. Throws `digest_home`. */
export function lookAtBlock(home: string): Written {
  requireHome(home);
  const bytes = readBytes(join(home, AGENTS));
  const block: BlockChange = bytes === null ? { change: "no file" } : untouched(findBlock(bytes, DIGEST_MARKERS));
  return { files: [{ file: AGENTS, ...block }], warnings: digestWarnings(home) };
}

/** Adds markers and guide where there are none. Throws `digest_damaged` before anything is changed. */
export function installDigest(lang: Language, options: FileOptions): Written {
  const { home } = options;
  requireHome(home);
  return asSentence(home, () => {
    const agents = join(home, AGENTS);
    const soul = join(home, SOUL);
    requireWhole(agents, DIGEST_MARKERS);
    requireWhole(soul, GUIDE_MARKERS);
    const words = WORDS[lang];
    const wasFilled = findBlock(readBytes(agents) ?? Buffer.alloc(0), DIGEST_MARKERS);
    const files: FileChange[] = [
      {
        file: AGENTS,
        change: addOnce(agents, DIGEST_MARKERS, { label: DIGEST_LABEL, content: `_${words.nothing}_` }, options),
      },
      { file: SOUL, change: guideIn(soul, words, options) },
    ];
    const others = wasFilled.kind === "block" && !wasFilled.beginLine.includes(DIGEST_LABEL);
    return { files, warnings: warningsOf(home, others) };
  });
}

function addOnce(
  path: string,
  markers: Markers,
  block: { label: string; content: string },
  options: FileOptions,
): "written" | "created" | "unchanged" {
  const isNew = !existsSync(path);
  const isWritten = replaceFile(
    path,
    (bytes) => {
      if (bytes !== null && findBlock(bytes, markers).kind !== "absent") return null;
      const added = addBlock(bytes, markers, block);
      // Behind an open fence the block would be a piece of code, for us and for every reader.
      if (findBlock(added, markers).kind !== "block")
        throw damaged(path, "a code fence before the block is not closed");
      return added;
    },
    replacing(options),
  );
  return isWritten ? (isNew ? "created" : "written") : "unchanged";
}

/** The guide of an earlier version, or in the other language, is replaced. A file that began with it keeps a sentence of identity. */
function guideIn(path: string, words: Words, options: FileOptions): "written" | "created" | "unchanged" {
  const bytes = readBytes(path);
  const block = bytes === null ? null : findBlock(bytes, GUIDE_MARKERS);
  const old = bytes === null || block?.kind !== "block" ? "" : bytes.toString("utf8", block.from, block.to);
  const isIdentity = bytes === null || Object.values(WORDS).some(({ identity }) => old.includes(identity));
  const guide = isIdentity ? `${words.identity}\n\n${words.guide}` : words.guide;
  if (block?.kind !== "block") return addOnce(path, GUIDE_MARKERS, { label: GUIDE_LABEL, content: guide }, options);
  return inBlock(path, GUIDE_MARKERS, guide, options).change === "written" ? "written" : "unchanged";
}

function warningsOf(home: string, isOthers: boolean): string[] {
  const before = [".hermes.md", "HERMES.md", "AGENTS.override.md"].filter((name) => existsSync(join(home, name)));
  return [
    ...(isOthers
      ? [
          `${AGENTS} has a block that another program made: it is used, and what that program writes there from now on is replaced. Stop its job.`,
        ]
      : []),
    ...digestWarnings(home),
    ...before.map(
      (name) => `${name} goes before ${AGENTS}: Hermes reads only the first of them, and would not see the block.`,
    ),
  ];
}

/** Takes away what `installDigest` and the runs made. A block that another program made keeps its markers, and is empty. */
export function uninstallDigest(options: FileOptions): readonly FileChange[] {
  const { home } = options;
  requireFolder(home);
  return asSentence(home, () => {
    const agents = join(home, AGENTS);
    const soul = join(home, SOUL);
    requireWhole(agents, DIGEST_MARKERS);
    requireWhole(soul, GUIDE_MARKERS);
    const full = removeFull(join(home, FULL));
    const folder = join(home, dirname(FULL));
    if ((removeNote(home) || full === "removed") && readdirSync(folder).length === 0) rmdirSync(folder);
    return [
      { file: FULL, change: full },
      { file: AGENTS, change: takeOut(agents, DIGEST_MARKERS, DIGEST_LABEL, options) },
      { file: SOUL, change: takeOut(soul, GUIDE_MARKERS, GUIDE_LABEL, options) },
    ];
  });
}

function removeFull(path: string): "removed" | "unchanged" | "no file" {
  const bytes = readBytes(path);
  if (bytes === null) return "no file";
  // Somebody else's, or written by hand.
  if (!Object.values(WORDS).some(({ title }) => bytes.toString("utf8").startsWith(`# ${title}\n`))) return "unchanged";
  rmSync(path);
  return "removed";
}

function takeOut(
  path: string,
  markers: Markers,
  label: string,
  options: FileOptions,
): "written" | "removed" | "no file" | "no block" | "unchanged" {
  const bytes = readBytes(path);
  if (bytes === null) return "no file";
  const block = findBlock(bytes, markers);
  if (block.kind !== "block") return "no block";
  const isOurs = block.beginLine.includes(label);
  // In a file that was there already, a line end stands in front of the block.
  if (isOurs && block.lineFrom === 0 && removeBlock(bytes, block).length === 0) {
    rmSync(path);
    return "removed";
  }
  const isWritten = replaceFile(
    path,
    (now) => {
      const found = now === null ? null : findBlock(now, markers);
      if (now === null || found?.kind !== "block") return null;
      return isOurs ? removeBlock(now, found) : fillBlock(now, found, "");
    },
    replacing(options),
  );
  return isWritten ? "written" : "unchanged";
}

function requireWhole(path: string, markers: Markers): void {
  const found = findBlock(readBytes(path) ?? Buffer.alloc(0), markers);
  if (found.kind === "damaged") throw damaged(path, found.why);
}

function damaged(path: string, why: Damage): TertuliaError {
  return new TertuliaError("digest_damaged", `The block in ${path} is damaged: ${why}. The file was not changed.`);
}

// ---- where a home may be

function requireFolder(home: string): void {
  if (statSync(home, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new TertuliaError("digest_home", `There is no folder ${home}.`);
}

/** D7: Hermes reads no context file inside its own program's folder, and the next update would take ours away. */
export function requireHome(home: string): void {
  requireFolder(home);
  const tree = installTreeOf(realpathSync(home));
  if (tree === null) return;
  throw new TertuliaError("digest_home", `${home} is inside the program ${tree}: context files there are not read.`, {
    remedy: "Name the state folder with --home, such as ~/.hermes.",
  });
}

function installTreeOf(path: string): string | null {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    if (isProgram(folder)) return folder;
    if (dirname(folder) === folder) return null;
  }
}

function isProgram(folder: string): boolean {
  if (/[\\/](?:site-packages|dist-packages|node_modules)$/.test(folder)) return true;
  if (existsSync(join(folder, "hermes_state.py"))) return true;
  const names = [/^name\s*=\s*["']hermes-agent["']/m, /"name":\s*"tertulia"/];
  return ["pyproject.toml", "package.json"].some((file, i) => {
    const text = readBytes(join(folder, file))?.toString("utf8");
    return text !== undefined && names[i]!.test(text);
  });
}

/** ENOENT: a link into a folder that is not there. EEXIST: a file where a folder of ours would be. */
const UNWRITABLE: readonly string[] = ["EACCES", "EEXIST", "EROFS", "EPERM", "ENOTDIR", "EISDIR", "ELOOP", "ENOENT"];

function asSentence<T>(home: string, write: () => T): T {
  try {
    return write();
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOSPC" || code === "EDQUOT")
      throw new TertuliaError("disk_full", `There is no space left in ${home}.`, { cause });
    if (code !== undefined && UNWRITABLE.includes(code)) {
      const { path } = cause as NodeJS.ErrnoException;
      throw new TertuliaError("home_unwritable", `${path ?? home} cannot be written (${code}).`, { cause });
    }
    throw cause;
  }
}
