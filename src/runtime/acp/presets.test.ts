import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { AGENT_PRESETS } from "../../config/schema.ts";
import { ACP_PRESETS, acpAgent } from "./presets.ts";

test("E2: what is written goes before the preset, and a command of its own is treated with care", () => {
  expect(Object.keys(ACP_PRESETS).sort()).toEqual([...AGENT_PRESETS].sort());
  expect(acpAgent({ preset: "hermes", command: "/opt/hermes" })).toMatchObject({
    command: "/opt/hermes",
    args: ["acp"],
    quirks: { resumeMayLie: true },
  });
  expect(acpAgent({ preset: "claude", args: ["-v"], contextFile: null })).toMatchObject({
    command: "claude-agent-acp",
    args: ["-v"],
    contextFile: null,
    quirks: { gracefulExit: "sigterm" },
  });
  expect(acpAgent({ command: "mine" })).toMatchObject({
    title: "The agent `mine`",
    args: [],
    contextFile: "AGENTS.md",
    quirks: { resumeMayLie: true },
  });
  expect(acpAgent({ command: "mine" }).quietTimeMs).toBeGreaterThan(300);
  expect(acpAgent({ preset: "gemini" }).quietTimeMs).toBe(0);
  expect(acpAgent({ preset: "gemini", quietTimeMs: 250 }).quietTimeMs).toBe(250);
  expect(acpAgent({ preset: "opencode", quietTimeMs: 0 }).quietTimeMs).toBe(0);
  expect(existsSync(ACP_PRESETS.demo.args[0])).toBe(true);
});
