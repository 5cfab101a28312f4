/**
 * How requests of ours go out: through the proxies that the environment names, but never to this machine through one. A proxy would be told
 * what is between us and a server here, the owner's token with it. Node's own switch for proxies knows no such difference, so it is not
 * left to that.
 */
import { isLoopback } from "./loopback.ts";

/** The library's is of the same interface as that of Node's fetch; only their types are told apart. */
type Dispatcher = NonNullable<RequestInit["dispatcher"]>;

/** As HTTP_PROXY, HTTPS_PROXY and NO_PROXY have them. */
export interface Proxies {
  readonly http?: string;
  readonly https?: string;
  readonly except: string;
}

/** `fetch` as it is where there are no proxies. */
export function createFetch(proxies: Proxies | undefined): typeof fetch {
  if (proxies === undefined) return fetch;
  let proxied: Promise<Dispatcher> | undefined;
  const direct = createDirectFetch(proxies);
  return async (input, init) => {
    if (isLoopback(urlOf(input))) return direct(input, init);
    proxied ??= dispatcherThrough(proxies);
    return fetchBy(await proxied, input, init);
  };
}

/** Goes through no proxy, whatever the environment says. */
export function createDirectFetch(proxies: Proxies | undefined): typeof fetch {
  if (proxies === undefined) return fetch;
  let direct: Promise<Dispatcher> | undefined;
  return async (input, init) => {
    direct ??= import("undici").then(({ Agent }) => new Agent() as unknown as Dispatcher);
    return fetchBy(await direct, input, init);
  };
}

/** Whether a proxy is asked for it, unless NO_PROXY says otherwise. */
export function isProxied(url: URL, proxies: Proxies | undefined): boolean {
  return proxies !== undefined && !isLoopback(url) && proxyFor(url, proxies) !== undefined;
}

/** As Node has it: one for http is taken for https too where that has none. */
function proxyFor({ protocol }: URL, { http, https }: Proxies): string | undefined {
  return protocol === "https:" ? (https ?? http) : http;
}

/** On demand: nobody without a proxy pays for it. */
async function dispatcherThrough({ http = "", https = "", except }: Proxies): Promise<Dispatcher> {
  const { EnvHttpProxyAgent } = await import("undici");
  return new EnvHttpProxyAgent({ httpProxy: http, httpsProxy: https, noProxy: except }) as unknown as Dispatcher;
}

function fetchBy(
  dispatcher: Dispatcher,
  input: Parameters<typeof fetch>[0],
  init: RequestInit = {},
): Promise<Response> {
  return fetch(input, { ...init, dispatcher });
}

function urlOf(input: Parameters<typeof fetch>[0]): URL {
  return new URL(input instanceof Request ? input.url : input);
}
