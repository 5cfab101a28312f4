/** Agents of others as ACP runtimes: each in a home of its own, with the model of a test, and told to fetch nothing. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AcpAgent, acpAgent } from "../../src/runtime/acp/presets.ts";
import { GEMINI, npmAgentFile, OPENCODE } from "./agent-installs.ts";
import { AGENT_MODEL, type AgentModel } from "./agent-model.ts";
import { hermesEnvironment, hermesInstall, prepareHermesHome } from "./real-hermes.ts";

export interface RealAgent {
  readonly agent: AcpAgent;
  readonly env: Readonly<Record<string, string>>;
}

const KEY = "fake-model-key-0123";

export function realOpencode(home: string, model: AgentModel): RealAgent {
  const config = join(home, "opencode.json");
  const name = `fake/${AGENT_MODEL}`;
  writeJson(config, {
    autoupdate: false,
    share: "disabled",
    model: name,
    small_model: name,
    provider: {
      fake: {
        npm: "@ai-sdk/openai-compatible",
        name: "Fake",
        options: { baseURL: model.url, apiKey: KEY },
        models: { [AGENT_MODEL]: { name: "Fake", tool_call: true, limit: { context: 200_000, output: 8_192 } } },
      },
    },
  });
  return {
    agent: acpAgent({ preset: "opencode", command: npmAgentFile(OPENCODE, "bin/opencode") }),
    env: {
      ...isolated(home),
      OPENCODE_CONFIG: config,
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    },
  };
}

export function realGemini(home: string, model: AgentModel): RealAgent {
  writeJson(join(home, ".gemini", "settings.json"), {
    security: { auth: { selectedType: "gemini-api-key" } },
    general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
  });
  const { args } = acpAgent({ preset: "gemini" });
  return {
    agent: acpAgent({
      preset: "gemini",
      command: process.execPath,
      args: [npmAgentFile(GEMINI, "bundle/gemini.js"), ...args],
    }),
    env: {
      ...isolated(home),
      GEMINI_API_KEY: KEY,
      GOOGLE_GEMINI_BASE_URL: model.geminiUrl,
      GEMINI_CLI_TRUST_WORKSPACE: "true",
      GEMINI_CLI_NO_RELAUNCH: "true",
      // Its own choice of a model asks one first.
      GEMINI_MODEL: "gemini-2.5-flash",
    },
  };
}

/** Rejects where Hermes cannot be had on this machine. */
export async function realHermes(home: string, model: AgentModel): Promise<RealAgent> {
  const install = await hermesInstall();
  if (install.kind === "unavailable") throw new Error(`Hermes is unavailable: ${install.why}.`);
  prepareHermesHome(home, model.url);
  return { agent: acpAgent({ preset: "hermes", command: install.command }), env: hermesEnvironment(home) };
}

function isolated(home: string): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    HOME: home,
    XDG_CONFIG_HOME: join(home, "config"),
    XDG_DATA_HOME: join(home, "data"),
    XDG_CACHE_HOME: join(home, "cache"),
    XDG_STATE_HOME: join(home, "state"),
  };
}

function writeJson(file: string, value: unknown): void {
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, JSON.stringify(value, null, 2));
}
