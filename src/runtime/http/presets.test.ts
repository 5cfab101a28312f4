import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createManualClock } from "../../../test/support/manual-clock.ts";
import { createHttpRuntime } from "./http-runtime.ts";
import { HTTP_PRESETS, type HttpPreset, isHttpPreset, withPreset } from "./presets.ts";

const presets: [string, HttpPreset][] = Object.entries(HTTP_PRESETS);

test.each(presets)("%s makes a runtime, and only one on this machine needs no key", (name, preset) => {
  if (!isHttpPreset(name)) throw new Error(`${name} is no preset`);
  const settings = { name, model: "m", idleTimeoutMs: 60_000, clock: createManualClock(), chance: () => 0.5 };
  expect(createHttpRuntime({ ...settings, ...withPreset(name, {}) }).history).toBe("gateway");
  expect(preset.keyVariable === null).toBe(new URL(preset.baseUrl).hostname === "127.0.0.1");
});

test.each(presets)("docs/models.md shows %s with its address, its key and its window", (name, preset) => {
  const text = readFileSync("docs/models.md", "utf8");
  expect(text).toContain(`preset: ${name}`);
  const row = text.split("\n").find((line) => line.startsWith(`| \`${name}\``));
  expect(row).toContain(`\`${preset.baseUrl}\``);
  expect(row).toContain(preset.keyVariable === null ? "none" : `\`${preset.keyVariable}\``);
  expect(row).toContain(preset.window.toLocaleString("en"));
});

test("E1: what is written goes before the preset", () => {
  const written = { baseUrl: "http://models.test/v1", window: 9_000, headers: { "x-a": "1" }, model: "m" };
  expect(withPreset("anthropic", written)).toEqual({
    ...written,
    headers: { "anthropic-version": "2023-06-01", "x-a": "1" },
  });
  expect(isHttpPreset("toString")).toBe(false);
});
