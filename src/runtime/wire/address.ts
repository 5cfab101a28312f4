import { TertuliaError } from "../../errors.ts";

export interface WrittenAddress {
  /** Of the runtime, for error sentences. */
  readonly name: string;
  readonly baseUrl: string;
}

/** Where a server is. Throws `config_invalid`. */
export function readBaseUrl({ name, baseUrl }: WrittenAddress): URL {
  const url = URL.parse(baseUrl);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw invalid("base_url", `The base_url of the runtime ${name} is no http or https address.`);
  }
  if (url.username !== "" || url.password !== "") {
    throw invalid("base_url", `The base_url of the runtime ${name} holds a name or a password: write it as \`key\`.`);
  }
  return url;
}

/** Throws `config_invalid` for a key or a header that cannot be sent. */
export function checkHeaders(name: string, key: string | undefined, headers: Readonly<Record<string, string>>): void {
  for (const [header, value] of Object.entries({ key: key ?? "x", ...headers })) {
    if (/^[\x20-\x7e]+$/.test(value) && value.trim() === value) continue;
    const which = header === "key" ? "key" : `header ${header}`;
    throw invalid(
      header === "key" ? "key" : `headers.${header}`,
      `The ${which} of the runtime ${name} is empty, or holds characters that cannot be sent (a line end?).`,
    );
  }
}

/** The address of a path below a base; its query is kept. */
export function below(baseUrl: URL, path: string): string {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, "")}${path}`;
  return url.href;
}

/** `setting`: the key of the runtime's description that is wrong. */
export function invalid(setting: string, sentence: string): TertuliaError {
  return new TertuliaError("config_invalid", sentence, { setting });
}
