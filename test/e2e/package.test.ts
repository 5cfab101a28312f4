/** The package as npm users get it: packed, installed without anything of ours beside it, and used by their compiler. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { temporaryFolder } from "../support/store.ts";

const ROOT = join(import.meta.dirname, "../..");
const INSTALLED = "node_modules/tertulia";

let folder: ReturnType<typeof temporaryFolder>;
let packed: string;

beforeAll(() => {
  folder = temporaryFolder();
  packed = join(folder.path, INSTALLED);
  mkdirSync(dirname(packed));
  const [{ filename }] = JSON.parse(npm("pack", "--ignore-scripts", "--json", "--pack-destination", folder.path));
  execFileSync("tar", ["xf", join(folder.path, filename), "-C", folder.path]);
  renameSync(join(folder.path, "package"), packed);
  for (const path of npm("ls", "--omit=dev", "--all", "--parseable").trim().split("\n").slice(1)) {
    const name = path.split("/node_modules/").at(-1)!;
    const link = join(folder.path, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    if (!existsSync(link)) symlinkSync(path, link);
  }
  writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }');
});

afterAll(() => folder.remove());

function npm(...args: string[]): string {
  return execFileSync("npm", args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

function tertulia(...args: string[]): string {
  const env = { HOME: folder.path, TERTULIA_HOME: join(folder.path, "home") };
  return execFileSync(process.execPath, [join(packed, "bin/tertulia.js"), ...args], { env, encoding: "utf8" });
}

function filesIn(path: string): string[] {
  return readdirSync(join(packed, path), { recursive: true, encoding: "utf8" });
}

// What is expected of any package: its version, types that a strict compiler takes, a README that is about it, maps that lead somewhere.
describe("F-OPS-02 the packed package", () => {
  test.each(["--version", "-V"])("F-OPS-02 %s says the version, and needs no home", (flag) => {
    const { version } = JSON.parse(readFileSync(join(packed, "package.json"), "utf8"));
    expect(tertulia(flag)).toBe(`${version}\n`);
    expect(existsSync(join(folder.path, "home"))).toBe(false);
  });

  test.each([
    { module: "nodenext", moduleResolution: "nodenext" },
    { module: "preserve", moduleResolution: "bundler" },
  ])("F-OPS-02 every exported file compiles with skipLibCheck: false ($moduleResolution)", (how) => {
    const { exports } = JSON.parse(readFileSync(join(packed, "package.json"), "utf8"));
    const names = Object.keys(exports).map((entry) => entry.replace(/^\./, "tertulia"));
    expect(names).toEqual(expect.arrayContaining(["tertulia", "tertulia/channel/xmpp/xmpp-channel"]));
    expect(names.filter((name) => name.includes("*") || !isExported(name))).toEqual([]);
    const imports = names.map((name, index) => `export * as of${index} from "${name}";`);
    writeFileSync(join(folder.path, "consumer.ts"), imports.join("\n"));
    const compilerOptions = { target: "es2022", strict: true, skipLibCheck: false, noEmit: true, ...how };
    writeFileSync(join(folder.path, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["consumer.ts"] }));
    expect(compile()).toBe("");
  });

  test("F-OPS-02 no map without its sources", () => {
    const maps = filesIn("dist").filter((name) => name.endsWith(".map"));
    expect(maps.filter((name) => !sourcesAreThere(name))).toEqual([]);
    const pointing = filesIn("dist").filter((name) => {
      if (!name.endsWith(".js")) return false;
      const map = /^\/\/# sourceMappingURL=(.+)$/m.exec(readFileSync(join(packed, "dist", name), "utf8"))?.[1];
      return map !== undefined && !existsSync(join(packed, "dist", dirname(name), map));
    });
    expect(pointing).toEqual([]);
  });

  test("F-OPS-02 the README's commands are those of the package, and its links lead into it", () => {
    const readme = readFileSync(join(packed, "README.md"), "utf8");
    const [forUsers = ""] = readme.split("## Work on it");
    const all = [...forUsers.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = ""]) => block.split("\n"));
    const ofCheckout = (block: readonly string[]): boolean =>
      block.some((line) => /npm (?:run|start|ci|test)/.test(line));
    expect(all.filter(ofCheckout)).toHaveLength(1);
    const blocks = all.filter((block) => !ofCheckout(block)).flat();
    const commands = blocks.flatMap(
      (line) => /^tertulia ([a-z]+(?: (?:list|show|install|hermes|check|run))?)/.exec(line)?.[1] ?? [],
    );
    expect(commands).toEqual(expect.arrayContaining(["start", "chat", "send", "sessions list"]));
    for (const command of commands)
      expect(tertulia(...command.split(" "), "--help")).toContain(`Usage: tertulia ${command}`);
    const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) => path!);
    expect(links.filter((path) => !existsSync(join(packed, path)))).toEqual([]);
  });
});

function isExported(name: string): boolean {
  try {
    createRequire(join(folder.path, "consumer.js")).resolve(name);
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_PACKAGE_PATH_NOT_EXPORTED") return false;
    throw cause;
  }
}

function compile(): string {
  try {
    execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", folder.path], {
      cwd: folder.path,
      encoding: "utf8",
    });
    return "";
  } catch (cause) {
    return (cause as { stdout: string }).stdout;
  }
}

function sourcesAreThere(name: string): boolean {
  const path = join(packed, "dist", name);
  const { sources, sourcesContent } = JSON.parse(readFileSync(path, "utf8")) as {
    sources: string[];
    sourcesContent?: string[];
  };
  return sourcesContent !== undefined || sources.every((source) => existsSync(join(dirname(path), source)));
}
