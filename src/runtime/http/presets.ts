import type { ModelPreset } from "../../config/config.ts";

/** Where well-known servers of chat completions are. What a configuration says goes before its preset. */

export interface HttpPreset {
  readonly title: string;
  readonly baseUrl: string;
  /** The variable the key is mostly in; null where none is needed. */
  readonly keyVariable: string | null;
  /** Tokens; careful where the server cuts a longer prompt without a word. */
  readonly window: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export type HttpPresetName = ModelPreset;

export const HTTP_PRESETS = {
  openai: {
    title: "OpenAI",
    baseUrl: "https://api.openai.com/v1",
    keyVariable: "OPENAI_API_KEY",
    window: 128_000,
  },
  openrouter: {
    title: "OpenRouter",
    baseUrl: "https://openrouter.ai/api/v1",
    keyVariable: "OPENROUTER_API_KEY",
    window: 64_000,
  },
  ollama: { title: "Ollama", baseUrl: "http://127.0.0.1:11434/v1", keyVariable: null, window: 4_096 },
  llamacpp: { title: "llama.cpp", baseUrl: "http://127.0.0.1:8080/v1", keyVariable: null, window: 8_192 },
  vllm: { title: "vLLM", baseUrl: "http://127.0.0.1:8000/v1", keyVariable: null, window: 32_768 },
  anthropic: {
    title: "Anthropic (compatible endpoint)",
    baseUrl: "https://api.anthropic.com/v1",
    keyVariable: "ANTHROPIC_API_KEY",
    window: 200_000,
    headers: { "anthropic-version": "2023-06-01" },
  },
  google: {
    title: "Google Gemini (compatible endpoint)",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai",
    keyVariable: "GEMINI_API_KEY",
    window: 128_000,
  },
  deepseek: {
    title: "DeepSeek",
    baseUrl: "https://api.deepseek.com/v1",
    keyVariable: "DEEPSEEK_API_KEY",
    window: 64_000,
  },
  qwen: {
    title: "Qwen (DashScope)",
    baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    keyVariable: "DASHSCOPE_API_KEY",
    window: 32_768,
  },
  moonshot: {
    title: "Moonshot (Kimi)",
    baseUrl: "https://api.moonshot.ai/v1",
    keyVariable: "MOONSHOT_API_KEY",
    window: 128_000,
  },
} as const satisfies Record<ModelPreset, HttpPreset>;

export function isHttpPreset(name: string): name is HttpPresetName {
  return Object.hasOwn(HTTP_PRESETS, name);
}

/** What is written, and where it is silent the preset's. */
export function withPreset<Written extends Partial<Pick<HttpPreset, "baseUrl" | "window" | "headers">>>(
  name: HttpPresetName,
  written: Written,
): Written & Pick<HttpPreset, "baseUrl" | "window" | "headers"> {
  const { baseUrl, window, headers }: HttpPreset = HTTP_PRESETS[name];
  return {
    ...written,
    baseUrl: written.baseUrl ?? baseUrl,
    window: written.window ?? window,
    headers: { ...headers, ...written.headers },
  };
}
