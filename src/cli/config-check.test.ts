import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { configKeys, loadConfig } from "../config/config.ts";
import { effectiveValues } from "./config-check.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "tertulia-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

test("E2 whatever stands in the file has a value that holds, from the file", () => {
  const template = readFileSync(new URL("../../config.example.yaml", import.meta.url), "utf8");
  writeFileSync(join(home, "persona.md"), "You are Main.");
  writeFileSync(join(home, "config.yaml"), template.replace(/^#(?!#)/gm, ""));
  const env = {
    ALICE_TOKEN: "0123456789abcdef",
    METRICS_TOKEN: "fedcba9876543210",
    MODEL_KEY: "k",
    MAIN_PASSWORD: "p",
    API_SERVER_KEY: "k",
  };
  const values = effectiveValues(loadConfig({ flags: { home }, env }));
  const fromFile = Object.keys(values).filter((path) => values[path]?.from === "file");
  const isSaid = (pattern: string): boolean => {
    const steps = pattern.split("*").map((part) => part.replaceAll(".", "\\."));
    return fromFile.some((path) => new RegExp(`^${steps.join(".+")}$`).test(path));
  };
  // A policy of the example says only some of its keys, and a runtime stands in one of two places.
  const isPartly = (path: string): boolean =>
    /^reset\.(?:platforms|types|chats)\./.test(path) || /runtimes?(?:\.\*)?$/.test(path);
  const keys = configKeys()
    .map(({ path }) => path)
    .filter((path) => !isPartly(path));
  expect(keys.filter((path) => !isSaid(path))).toEqual([]);
});
