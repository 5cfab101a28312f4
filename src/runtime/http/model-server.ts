import type { Clock } from "../../util/clock.ts";
import { isLoopback } from "../../util/loopback.ts";
import { isProxied, type Proxies } from "../../util/outgoing.ts";
import { below, checkHeaders, invalid, readBaseUrl } from "../wire/address.ts";
import { createMask, type Scene } from "../wire/failures.ts";

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
  /** Those that `fetch` goes through: a sentence may name them. */
  readonly proxies?: Proxies | undefined;
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

/** What pages of vendors show behind the base of an API. */
const ENDPOINT =
  /\/(?:chat\/completions.*|completions|responses|messages|embeddings|models|api\/(?:chat|generate|tags))\/*$/i;

/** Throws `config_invalid`. */
export function createModelServer(options: ModelServerOptions): ModelServer {
  const { name, model, key, headers = {}, clock } = options;
  const baseUrl = readBaseUrl(options);
  const [endpoint] = ENDPOINT.exec(baseUrl.pathname) ?? [];
  if (endpoint !== undefined) {
    const base = `${baseUrl.origin}${baseUrl.pathname.slice(0, -endpoint.length)}`;
    throw invalid("base_url", `The base_url of the runtime ${name} ends before ${endpoint}: ${base}`);
  }
  if (model.trim() === "") throw invalid("model", `The runtime ${name} has no model.`);
  checkHeaders(name, key, headers);
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
    isProxied: isProxied(baseUrl, options.proxies),
    model,
    localProgram: isLoopback(baseUrl) ? (LOCAL_PROGRAMS[baseUrl.port] ?? "the model server") : null,
    mask: createMask([...(key === undefined ? [] : [key]), ...Object.values(headers)]),
    url: (path) => below(baseUrl, path),
  };
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value]));
}
