import { fork } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../../test/support/store.ts";
import { asTertuliaError } from "../errors.ts";
import { DEFAULT_DIGEST, type Digest, sectionOf } from "./digest.ts";
import {
  blockProblem,
  type FileChange,
  type FileOptions,
  installDigest,
  uninstallDigest,
  writeDigest,
} from "./files.ts";
import { replaceFile } from "./replace-file.ts";
import { WORDS } from "./words.ts";

const START = Date.UTC(2026, 10, 30, 8);
const RENDERING = { lang: "en", timezone: "UTC" } as const;

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let nonces: number;
beforeEach(() => {
  folder = temporaryFolder();
  home = folder.path;
  nonces = 0;
});
afterEach(() => folder.remove());

function options(): FileOptions {
  return { home, now: Date.now(), nonce: () => String(nonces++).padStart(12, "0") };
}

function digest(...lines: string[]): Digest {
  const rows = lines.map((text, i) => ({ role: "user", text, at: START + i }) as const);
  const section = sectionOf({ platform: "telegram", sessionId: "s", rows }, DEFAULT_DIGEST);
  return { sections: section === null ? [] : [section], notes: [] };
}

const path = (...names: string[]): string => join(home, ...names);
const read = (...names: string[]): string => readFileSync(path(...names), "utf8");
const changes = (files: readonly FileChange[]): string[] => files.map(({ change }) => change);
const inodes = (): number[] =>
  [["AGENTS.md"], ["shared-context", "DIGEST.md"]].map((names) => statSync(path(...names)).ino);

function refusal(call: () => unknown): { code: string; message: string } {
  try {
    call();
  } catch (cause) {
    return asTertuliaError(cause);
  }
  throw new Error("It was done.");
}

describe("D7: writing", () => {
  test("D7: G-SYN-04: what has not changed is not written: 12 runs touch no file, a new line each of them once", () => {
    installDigest("en", options());
    writeDigest(digest("hello"), RENDERING, options());
    const before = inodes();
    for (let run = 0; run < 12; run++)
      expect(changes(writeDigest(digest("hello"), RENDERING, options()).files)).toEqual(["unchanged", "unchanged"]);
    expect(inodes()).toEqual(before);
    expect(changes(writeDigest(digest("hello", "new"), RENDERING, options()).files)).toEqual(["written", "written"]);
    expect(inodes()[0]).not.toBe(before[0]);
    expect(inodes()[1]).not.toBe(before[1]);
  });

  test("D7: without a block AGENTS.md is left alone, and DIGEST.md written all the same", () => {
    expect(changes(writeDigest(digest("hello"), RENDERING, options()).files)).toEqual(["written", "no file"]);
    writeFileSync(path("AGENTS.md"), "# Mine\n");
    expect(changes(writeDigest(digest("hello"), RENDERING, options()).files)).toEqual(["unchanged", "no block"]);
    expect(read("AGENTS.md")).toBe("# Mine\n");
  });

  test("D7: damaged markers: nothing is changed, and it says so", () => {
    const text = "<!-- CROSS-PLATFORM:BEGIN -->\nmine\n";
    writeFileSync(path("AGENTS.md"), text);
    expect(writeDigest(digest("hello"), RENDERING, options()).files[1]).toEqual({
      file: "AGENTS.md",
      change: "damaged",
      why: "the end marker is missing",
    });
    expect(refusal(() => installDigest("en", options()))).toMatchObject({
      code: "digest_damaged",
      message: expect.stringContaining("the end marker is missing"),
    });
    expect(refusal(() => uninstallDigest(options())).code).toBe("digest_damaged");
    expect(read("AGENTS.md")).toBe(text);
    expect(existsSync(path("SOUL.md"))).toBe(false);
  });

  test("F-DIG-01 D7: a file that only quotes the markers is left alone, and that is said; install adds a block to it", () => {
    const text =
      "Put `<!-- CROSS-PLATFORM:BEGIN -->` and\n```\n<!-- CROSS-PLATFORM:BEGIN -->\nmine\n<!-- CROSS-PLATFORM:END -->\n```\n";
    writeFileSync(path("AGENTS.md"), text);
    const { files } = writeDigest(digest("hello"), RENDERING, options());
    expect(read("AGENTS.md")).toBe(text);
    expect(blockProblem(home, files)).toMatchObject({
      code: "digest_damaged",
      remedy: expect.stringContaining("install"),
    });
    installDigest("en", options());
    expect(blockProblem(home, writeDigest(digest("hello"), RENDERING, options()).files)).toBeNull();
    expect(read("AGENTS.md")).toContain("hello");
    expect(read("AGENTS.md").startsWith(text)).toBe(true);
    uninstallDigest(options());
    expect(read("AGENTS.md")).toBe(text);
  });

  test("F-DIG-01 D7: a block is not added behind a code fence that is open", () => {
    writeFileSync(path("AGENTS.md"), "```\nmine\n");
    expect(refusal(() => installDigest("en", options()))).toMatchObject({ code: "digest_damaged" });
    expect(read("AGENTS.md")).toBe("```\nmine\n");
  });

  test("F-DIG-02 D7: a file that has grown over its reader's limit is warned of by each run, until it is shorter", () => {
    installDigest("en", options());
    expect(writeDigest(digest("hello"), RENDERING, options()).warnings).toEqual([]);
    const installed = read("AGENTS.md");
    writeFileSync(path("AGENTS.md"), `${"字".repeat(19_900)}\n${installed}`);
    const { warnings } = writeDigest(digest("hello, world"), RENDERING, options());
    expect(warnings).toEqual([expect.stringContaining("AGENTS.md has more than 20,000 characters")]);
    writeFileSync(path("AGENTS.md"), installed);
    expect(writeDigest(digest("hello"), RENDERING, options()).warnings).toEqual([]);
  });

  test("D7: a marker that somebody says in a chat is no marker", () => {
    installDigest("en", options());
    writeDigest(digest("look: <!-- CROSS-PLATFORM:END --> and <!-- CROSS-PLATFORM:BEGIN"), RENDERING, options());
    expect(changes(writeDigest(digest("again"), RENDERING, options()).files)).toEqual(["written", "written"]);
    expect(read("AGENTS.md").match(/CROSS-PLATFORM:END/g)).toHaveLength(1);
  });

  test("D7: a file keeps its mode, and a link to it stays a link", () => {
    writeFileSync(path("real.md"), "# Mine\n");
    symlinkSync(path("real.md"), path("AGENTS.md"));
    installDigest("en", options());
    chmodSync(path("real.md"), 0o640);
    writeDigest(digest("hello"), RENDERING, options());
    expect(statSync(path("real.md")).mode & 0o777).toBe(0o640);
    expect(read("real.md")).toContain("hello");
    expect(readdirSync(home)).toContain("AGENTS.md");
    expect(statSync(path("shared-context", "DIGEST.md")).mode & 0o777).toBe(0o600);
  });

  test("D7: a link whose file is not there yet stays a link", () => {
    mkdirSync(path("notes"));
    symlinkSync(join("notes", "real.md"), path("AGENTS.md"));
    expect(changes(installDigest("en", options()).files)).toEqual(["created", "created"]);
    expect(lstatSync(path("AGENTS.md")).isSymbolicLink()).toBe(true);
    expect(read("notes", "real.md")).toContain("CROSS-PLATFORM:BEGIN");
  });

  test("D7: a file stays its owner's where the superuser writes it", () => {
    installDigest("en", options());
    // Only the superuser can give a file away; for everybody else it is his own, and stays so.
    const uid = process.getuid?.() === 0 ? 65_534 : statSync(path("AGENTS.md")).uid;
    chownSync(path("AGENTS.md"), uid, statSync(path("AGENTS.md")).gid);
    expect(changes(writeDigest(digest("hello"), RENDERING, options()).files)).toEqual(["written", "written"]);
    expect(statSync(path("AGENTS.md")).uid).toBe(uid);
  });

  test("D7: a file that was made read only stays as it is, and that is said", () => {
    installDigest("en", options());
    const before = read("AGENTS.md");
    chmodSync(path("AGENTS.md"), 0o444);
    expect(refusal(() => writeDigest(digest("hello"), RENDERING, options()))).toMatchObject({
      code: "home_unwritable",
      message: expect.stringContaining("AGENTS.md"),
    });
    expect(read("AGENTS.md")).toBe(before);
    expect(readdirSync(home).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("D7: what an editor writes meanwhile is not lost", () => {
    writeFileSync(path("x"), "one");
    let calls = 0;
    const isWritten = replaceFile(
      path("x"),
      (bytes) => {
        if (calls++ === 0) writeFileSync(path("x"), "two");
        return Buffer.from(`${bytes}+`);
      },
      options(),
    );
    expect(isWritten).toBe(true);
    expect(read("x")).toBe("two+");
  });

  test("D7: a crash between the temporary file and the rename leaves the old file, and the next run clears up", async () => {
    installDigest("en", options());
    writeDigest(digest("old"), RENDERING, options());
    const before = read("AGENTS.md");
    // A process of its own that is killed at the rename: the folder of the target is all it leaves.
    const child = fork(
      new URL("../../test/support/dies-at-rename.ts", import.meta.url),
      [path("AGENTS.md"), "new content"],
      { stdio: "ignore" },
    );
    const signal = await new Promise((resolve) => child.once("exit", (_, how) => resolve(how)));
    expect(signal).toBe("SIGKILL");
    expect(read("AGENTS.md")).toBe(before);
    const left = readdirSync(home).filter((name) => name.endsWith(".tmp"));
    expect(left).toHaveLength(1);
    expect(read(left[0]!)).toBe("new content");
    utimesSync(path(left[0]!), new Date(0), new Date(0));
    writeDigest(digest("new"), RENDERING, options());
    expect(readdirSync(home).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("D7: many runs at the same time do not tear a file: a reader sees one whole version or another", async () => {
    installDigest("en", options());
    writeDigest(digest("start"), RENDERING, options());
    const script = new URL("../../test/support/writes-digests.ts", import.meta.url);
    const children = ["a", "b", "c"].map((name) => fork(script, [home, name, "40"], { stdio: "ignore" }));
    let running = children.length;
    const ends = children.map(
      (child) =>
        new Promise((resolve) =>
          child.once("exit", (code) => {
            running--;
            resolve(code);
          }),
        ),
    );
    let seen = 0;
    while (running > 0) {
      for (const names of [["AGENTS.md"], ["shared-context", "DIGEST.md"]]) {
        const text = read(...names);
        const letters = new Set([...text.matchAll(/([abc])\1{50,}/g)].map((match) => match[1]));
        expect(letters.size).toBeLessThanOrEqual(1);
        expect(names[0] !== "AGENTS.md" || text.trimEnd().endsWith("<!-- CROSS-PLATFORM:END -->")).toBe(true);
        seen++;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await Promise.all(ends)).toEqual([0, 0, 0]);
    expect(seen).toBeGreaterThan(10);
    expect(readdirSync(home).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });
});

describe("D7: install and uninstall", () => {
  const HAND = "# Rules\r\n\r\nBe brief. Ça va? \u{1F600}";

  test("D7: markers and guide are added to hand-written text, which stays; uninstall gives it back to the byte", () => {
    writeFileSync(path("AGENTS.md"), HAND);
    writeFileSync(path("SOUL.md"), "You are Nova.\n");
    expect(changes(installDigest("en", options()).files)).toEqual(["written", "written"]);
    expect(read("AGENTS.md").startsWith(HAND)).toBe(true);
    expect(read("SOUL.md").startsWith("You are Nova.\n")).toBe(true);
    expect(read("SOUL.md")).not.toContain(WORDS.en.identity);
    writeDigest(digest("hello"), RENDERING, options());
    expect(changes(uninstallDigest(options()))).toEqual(["removed", "written", "written"]);
    expect(read("AGENTS.md")).toBe(HAND);
    expect(read("SOUL.md")).toBe("You are Nova.\n");
    expect(readdirSync(home).sort()).toEqual(["AGENTS.md", "SOUL.md"]);
  });

  test("D7: files that are not there are made, and removed again; twice is once", () => {
    expect(changes(installDigest("en", options()).files)).toEqual(["created", "created"]);
    const soul = read("SOUL.md");
    expect(changes(installDigest("en", options()).files)).toEqual(["unchanged", "unchanged"]);
    expect(read("SOUL.md")).toBe(soul);
    expect(changes(installDigest("zh", options()).files)).toEqual(["unchanged", "written"]);
    expect(read("SOUL.md")).toContain(WORDS.zh.identity);
    expect(changes(uninstallDigest(options()))).toEqual(["no file", "removed", "removed"]);
    expect(readdirSync(home)).toEqual([]);
    expect(changes(uninstallDigest(options()))).toEqual(["no file", "no file", "no file"]);
  });

  test("D7: an empty file is empty again, and a DIGEST.md that nobody here wrote stays", () => {
    writeFileSync(path("AGENTS.md"), "");
    mkdirSync(path("shared-context"));
    writeFileSync(path("shared-context", "DIGEST.md"), "by hand\n");
    installDigest("en", options());
    expect(changes(uninstallDigest(options()))).toEqual(["unchanged", "written", "removed"]);
    expect(read("AGENTS.md")).toBe("");
    expect(read("shared-context", "DIGEST.md")).toBe("by hand\n");
    writeDigest(digest("hello"), { lang: "zh", timezone: "UTC" }, options());
    expect(changes(uninstallDigest(options()))).toEqual(["removed", "no block", "no file"]);
    expect(readdirSync(home)).toEqual(["AGENTS.md"]);
  });

  test("D7: a block that another program made is taken over, and said; uninstall leaves its markers", () => {
    const foreign =
      "<!-- CROSS-PLATFORM:BEGIN — 由 sync-digest.py 自动生成，勿手改 -->\n_（等待首次同步）_\n<!-- CROSS-PLATFORM:END -->\n";
    writeFileSync(path("AGENTS.md"), `# Mine\n${foreign}`);
    const { files, warnings } = installDigest("zh", options());
    expect(files[0]).toEqual({ file: "AGENTS.md", change: "unchanged" });
    expect(warnings[0]).toContain("another program made");
    writeDigest(digest("你好"), { lang: "zh", timezone: "UTC" }, options());
    expect(read("AGENTS.md")).toContain("勿手改 -->\n**其他端说过的话**");
    uninstallDigest(options());
    expect(read("AGENTS.md")).toBe(`# Mine\n${foreign.replace("_（等待首次同步）_\n", "")}`);
  });

  test("D10: the guide says it all, in both languages", () => {
    for (const [lang, signs] of [
      [
        "en",
        [
          "Source:",
          "without reading any file",
          "just now",
          "last time",
          "I told you",
          "DIGEST.md",
          "every door",
          "prefix…suffix",
          "not instructions",
        ],
      ],
      [
        "zh",
        ["Source:", "不用翻文件", "刚才", "上次", "我跟你说过", "DIGEST.md", "其他端也会看到", "前缀…后缀", "不是指令"],
      ],
    ] as const) {
      installDigest(lang, options());
      for (const sign of signs) expect(read("SOUL.md")).toContain(sign);
    }
  });

  /** F-HER-04: said in each language, and in a guide that an earlier version installed. */
  test.each([
    ["en", "Where there is no such line, this is a terminal of Hermes' own."],
    ["zh", "没有这一行，就是 Hermes 自己的终端"],
  ] as const)("F-HER-04 D10: the guide (%s) says what the absence of a Source: line means", (lang, sentence) => {
    installDigest(lang, options());
    expect(read("SOUL.md")).toContain(sentence);
    writeFileSync(path("SOUL.md"), read("SOUL.md").replace(sentence, ""));
    installDigest(lang, options());
    expect(read("SOUL.md")).toContain(sentence);
  });

  test("D7: a home inside a program's folder is refused, whichever sign of it there is", () => {
    for (const sign of ["hermes_state.py", "pyproject.toml", "package.json"]) {
      const tree = path(sign.replace(/\W/g, "-"));
      mkdirSync(join(tree, "state"), { recursive: true });
      writeFileSync(
        join(tree, sign),
        sign === "pyproject.toml" ? '[project]\nname = "hermes-agent"\n' : '{ "name": "tertulia" }',
      );
      const inside = { ...options(), home: join(tree, "state") };
      expect(refusal(() => installDigest("en", inside))).toMatchObject({ code: "digest_home" });
      expect(refusal(() => writeDigest(digest("x"), RENDERING, inside)).code).toBe("digest_home");
      expect(readdirSync(inside.home)).toEqual([]);
    }
    mkdirSync(path("lib", "site-packages", "x"), { recursive: true });
    expect(refusal(() => installDigest("en", { ...options(), home: path("lib", "site-packages", "x") })).code).toBe(
      "digest_home",
    );
    expect(refusal(() => installDigest("en", { ...options(), home: path("nowhere") })).message).toBe(
      `There is no folder ${path("nowhere")}.`,
    );
    // The program may be inside the home: that is how Hermes' installer does it.
    mkdirSync(path("hermes-agent"));
    renameSync(path("pyproject-toml", "pyproject.toml"), path("hermes-agent", "pyproject.toml"));
    expect(changes(installDigest("en", options()).files)).toEqual(["created", "created"]);
  });

  test("D7: a long AGENTS.md, and files that go before it, are warned of", () => {
    writeFileSync(path("AGENTS.md"), "字".repeat(20_001));
    writeFileSync(path(".hermes.md"), "x");
    const { warnings } = installDigest("en", options());
    expect(warnings).toEqual([
      expect.stringContaining("more than 20,000 characters"),
      expect.stringContaining(".hermes.md goes before AGENTS.md"),
    ]);
  });

  test("D7: what cannot be written is said in a sentence", () => {
    mkdirSync(path("AGENTS.md"));
    expect(refusal(() => installDigest("en", options()))).toMatchObject({ code: "home_unwritable" });
    rmdirSync(path("AGENTS.md"));
    symlinkSync("AGENTS.md", path("AGENTS.md"));
    expect(refusal(() => installDigest("en", options()))).toMatchObject({ code: "home_unwritable" });
    rmSync(path("AGENTS.md"));
    symlinkSync(join("nowhere", "AGENTS.md"), path("AGENTS.md"));
    expect(refusal(() => installDigest("en", options()))).toMatchObject({ code: "home_unwritable" });
  });
});
