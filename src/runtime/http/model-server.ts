import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import { createMask, type Scene } from "./failures.ts";

export interface ModelServerOptions {
  /** Of the runtime, for error sentences. */
  readonly name: string;
  /** Up to `/chat/completions`, mostly ending in `/v1`; a query is kept. */
  readonly baseUrl: string;
  readonly model: string;
  readonly key?: string | undefined;
  /** Sent with every request; go before our own. Their values are secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly clock: Clock;
}

/** A model at an address: how it is asked, and what a sentence about it may say. Nothing is sent by making one. */
export interface ModelServer extends Scene {
  readonly baseUrl: URL;
  readonly hasKey: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  /** The address of a path below the base. */
  url(path: string): string;
}

/** By their default ports. */
const LOCAL_PROGRAMS: Readonly<Record<string, string>> = {
  "11434": "Ollama (`ollama serve`)",
  "8080": "llama.cpp (`llama-server`)",
  "8000": "vLLM (`vllm serve`)",
  "1234": "LM Studio's server",
};

/** Throws `config_invalid`. */
export function createModelServer(options: ModelServerOptions): ModelServer {
  const { name, model, key, headers = {}, clock } = options;
  const baseUrl = readBaseUrl(options);
  if (model.trim() === "") throw invalid(`The runtime ${name} has no model.`);
  for (const [header, value] of Object.entries({ key: key ?? "x", ...headers })) {
    if (!/^[\x20-\x7e]+$/.test(value) || value.trim() !== value) {
      throw invalid(
        `The ${header === "key" ? "key" : `header ${header}`} of the runtime ${name} is empty, or holds characters that cannot be sent (a line end?).`,
      );
    }
  }
  const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(baseUrl.hostname);
  return {
    baseUrl,
    hasKey: key !== undefined,
    headers: {
      "content-type": "application/json",
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...lowerCased(headers),
    },
    fetch: options.fetch ?? fetch,
    clock,
    where: baseUrl.host,
    model,
    localProgram: isLocal ? (LOCAL_PROGRAMS[baseUrl.port] ?? "the model server") : null,
    mask: createMask([...(key === undefined ? [] : [key]), ...Object.values(headers)]),
    url: (path) => below(baseUrl, path),
  };
}

export function below(baseUrl: URL, path: string): string {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, "")}${path}`;
  return url.href;
}

function readBaseUrl({ name, baseUrl }: ModelServerOptions): URL {
  const url = URL.parse(baseUrl);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw invalid(`The base_url of the runtime ${name} is no http or https address.`);
  }
  if (url.username !== "" || url.password !== "") {
    throw invalid(`The base_url of the runtime ${name} holds a name or a password: write it as \`key\`.`);
  }
  if (url.pathname.includes("/chat/completions")) {
    throw invalid(`The base_url of the runtime ${name} ends before /chat/completions.`);
  }
  return url;
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value]));
}

function invalid(sentence: string): TertuliaError {
  return new TertuliaError("config_invalid", sentence);
}
