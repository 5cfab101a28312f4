import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { AgentPreset } from "../../config/config.ts";

/** How well-known agents are started, and what is peculiar to them. What a configuration says goes before its preset. */

export interface AcpAgent {
  readonly title: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The file in its workspace that it reads when a session is created; null where none is known. */
  readonly contextFile: string | null;
  readonly install: string;
  readonly signIn: string;
  /** What one warm session takes, roughly. */
  readonly memoryMb: number;
  /** So long is listened for words that come after the answer to their prompt; 0 of one that is known to keep the order (B11). */
  readonly quietTimeMs: number;
  readonly quirks: Quirks;
}

/** Of an agent whose order is not known. */
const QUIET_MS = 400;

export interface Quirks {
  /** Whether it ends with its input, or waits for SIGTERM, so that nobody waits for it. */
  readonly gracefulExit: "stdin" | "sigterm";
  /** Resuming a session it does not know makes another one without a word: it is asked for its list first, where it has one. */
  readonly resumeMayLie?: boolean;
  /** How it answers a prompt that it has only put into a queue. */
  readonly queuedNotice?: string;
  /** The first turn after a cancelled one ends at once without a word: it is asked again. */
  readonly emptyAfterCancel?: boolean;
}

/** Of a command without a preset: careful, at the price of three seconds when it is stopped. */
const UNKNOWN: AcpAgent = {
  title: "The agent",
  command: "",
  args: [],
  contextFile: "AGENTS.md",
  install: "Install it, or correct `command`.",
  signIn: "Sign in with the agent's own command.",
  memoryMb: 300,
  quietTimeMs: QUIET_MS,
  quirks: { gracefulExit: "stdin", resumeMayLie: true },
};

const OWN_CLI = fileURLToPath(new URL(`../../cli/main${extname(import.meta.url)}`, import.meta.url));

export const ACP_PRESETS = {
  demo: {
    title: "The built-in demo agent",
    command: process.execPath,
    args: [OWN_CLI, "demo-agent", "--state", ".demo-agent"],
    contextFile: "AGENTS.md",
    install: "It is part of Tertulia: install Tertulia again.",
    signIn: "It needs none.",
    memoryMb: 65,
    quietTimeMs: 0,
    quirks: { gracefulExit: "stdin" },
  },
  opencode: {
    title: "OpenCode",
    command: "opencode",
    args: ["acp"],
    contextFile: "AGENTS.md",
    install: "Install it: npm install -g opencode-ai",
    signIn: "Sign in: opencode auth login",
    memoryMb: 670,
    // COMPAT: its last words come after its answer (https://github.com/anomalyco/opencode/issues/17505).
    quietTimeMs: QUIET_MS,
    quirks: { gracefulExit: "stdin" },
  },
  gemini: {
    title: "Gemini CLI",
    command: "gemini",
    args: ["--experimental-acp"],
    contextFile: "GEMINI.md",
    install: "Install it: npm install -g @google/gemini-cli",
    signIn: "Sign in: run `gemini` once, or set GEMINI_API_KEY.",
    memoryMb: 375,
    quietTimeMs: 0,
    quirks: { gracefulExit: "stdin" },
  },
  claude: {
    title: "Claude Code",
    command: "claude-agent-acp",
    args: [],
    contextFile: "CLAUDE.md",
    install: "Install it: npm install -g @agentclientprotocol/claude-agent-acp",
    signIn: "Sign in: run `claude` once, or set ANTHROPIC_API_KEY.",
    memoryMb: 210,
    // COMPAT: news of its tools come after its answer (https://github.com/agentclientprotocol/claude-agent-acp/issues/824).
    quietTimeMs: QUIET_MS,
    quirks: { gracefulExit: "sigterm", emptyAfterCancel: true },
  },
  codex: {
    title: "Codex",
    command: "codex-acp",
    args: [],
    contextFile: "AGENTS.md",
    install: "Install it: npm install -g @agentclientprotocol/codex-acp",
    signIn: "Sign in: codex login",
    memoryMb: 80,
    quietTimeMs: QUIET_MS,
    quirks: { gracefulExit: "sigterm" },
  },
  hermes: {
    title: "Hermes Agent",
    command: "hermes",
    args: ["acp"],
    contextFile: "AGENTS.md",
    install: "Install Hermes Agent (https://github.com/NousResearch/hermes-agent) with its acp extra.",
    signIn: "Choose a model: hermes model",
    memoryMb: 200,
    quietTimeMs: QUIET_MS,
    quirks: { gracefulExit: "stdin", resumeMayLie: true, queuedNotice: "Queued for the next turn" },
  },
  qwen: {
    title: "Qwen Code",
    command: "qwen",
    args: ["--acp"],
    contextFile: "QWEN.md",
    install: "Install it: npm install -g @qwen-code/qwen-code",
    signIn: "Sign in: run `qwen` once, or set OPENAI_API_KEY.",
    memoryMb: 474,
    quietTimeMs: 0,
    quirks: { gracefulExit: "stdin" },
  },
} as const satisfies Record<AgentPreset, AcpAgent>;

export interface WrittenAgent {
  readonly preset?: AgentPreset;
  readonly command?: string;
  readonly args?: readonly string[];
  readonly contextFile?: string | null;
  readonly quietTimeMs?: number;
}

/** What is written, and where it is silent the preset's. */
export function acpAgent({ preset, command, args, contextFile, quietTimeMs }: WrittenAgent): AcpAgent {
  const known: AcpAgent = preset === undefined ? UNKNOWN : ACP_PRESETS[preset];
  return {
    ...known,
    title: preset === undefined && command !== undefined ? `The agent \`${command}\`` : known.title,
    command: command ?? known.command,
    args: args ?? known.args,
    contextFile: contextFile === undefined ? known.contextFile : contextFile,
    quietTimeMs: quietTimeMs ?? known.quietTimeMs,
  };
}
