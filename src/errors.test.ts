import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ERROR_CODES, TertuliaError } from "./errors.ts";

const SRC = new URL(".", import.meta.url);

describe("E3 the table of errors", () => {
  test("has no code that nothing raises", () => {
    const sources = readdirSync(SRC, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && name !== "errors.ts")
      .map((name) => readFileSync(new URL(name, SRC), "utf8"))
      .join("\n");
    expect(ERROR_CODES.filter((code) => !sources.includes(`"${code}"`))).toEqual([]);
  });

  test("is what docs/http.md says of each status", () => {
    const page = readFileSync(new URL("../docs/http.md", SRC), "utf8");
    const table = page.slice(page.indexOf("## Errors"), page.indexOf("## POST /v1"));
    const rows = [...table.matchAll(/^\| (\d{3}[\d, ]*)\|(.+)\|$/gm)].map((row) => ({
      statuses: row[1]!.match(/\d{3}/g)!.map(Number),
      codes: ERROR_CODES.filter((code) => row[2]!.includes(`\`${code}\``)),
    }));
    expect(rows.length).toBeGreaterThan(8);
    for (const { statuses, codes } of rows) {
      const found = codes.map((code) => new TertuliaError(code, "").status);
      expect([...new Set(found)].sort()).toEqual(statuses);
    }
  });
});
