import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/**
 * README.md and docs/: every link leads to a file and a heading that are there, every path of the repository that stands in backticks
 * exists, and every page can be reached from the README. Prints every breach; exits 1 if there is one.
 */
const PAGES = [
  "README.md",
  ...readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name)),
];
const REPOSITORY_PATH = /`((?:bench|bin|docs|scripts|sql|src|test)\/[\w./-]*\w)`/g;

const texts = new Map(PAGES.map((page) => [page, readFileSync(page, "utf8").replace(/^( *)```.*?^\1```/gms, "")]));
const breaches = [...PAGES.flatMap(breachesOf), ...unreached()];
for (const breach of breaches) console.error(breach);
if (breaches.length > 0) process.exitCode = 1;

/** Within the repository; `#heading` alone is one of the page itself. */
function linksOf(page: string): { readonly target: string; readonly heading: string }[] {
  const found = texts.get(page)!.matchAll(/\]\(([^)\s]+)\)/g);
  return [...found]
    .map((match) => match[1]!)
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [path = "", heading = ""] = link.split("#");
      return { target: path === "" ? page : normalize(join(dirname(page), path)), heading };
    });
}

function breachesOf(page: string): string[] {
  const links = linksOf(page).flatMap(({ target, heading }) => {
    if (!existsSync(target)) return [`${page}: links to ${target}, which is not there`];
    if (heading === "" || headingsOf(target).includes(heading)) return [];
    return [`${page}: links to ${target}#${heading}, a heading that is not there`];
  });
  const paths = [...texts.get(page)!.matchAll(REPOSITORY_PATH)]
    .map((match) => match[1]!)
    .filter((path) => !existsSync(path));
  return [...links, ...paths.map((path) => `${page}: names ${path}, which is not there`)];
}

/** As GitHub makes anchors of them. */
function headingsOf(page: string): string[] {
  const headings = texts.get(page)?.matchAll(/^#+ (.+)$/gm) ?? [];
  return [...headings].map((match) =>
    match[1]!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** A link to a folder leads to what is in it. */
function pagesIn(folder: string): string[] {
  return PAGES.filter((page) => folder.endsWith("/") && page.startsWith(folder));
}

function unreached(): string[] {
  const reached = new Set(["README.md"]);
  // What is added meanwhile is visited, too.
  for (const page of reached)
    for (const { target } of linksOf(page))
      for (const one of texts.has(target) ? [target] : pagesIn(target)) reached.add(one);
  return PAGES.filter((page) => !reached.has(page)).map((page) => `${page}: no link leads there from README.md`);
}
