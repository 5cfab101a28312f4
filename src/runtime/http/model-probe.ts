import { z } from "zod";
import { byNearness } from "../../text/nearest-name.ts";
import { quoteUntrusted } from "../../text/untrusted.ts";
import type { RuntimeProbe } from "../runtime.ts";
import { below } from "../wire/address.ts";
import { Connection } from "../wire/connection.ts";
import { failureOf, readServerError } from "../wire/failures.ts";
import { parseJson } from "../wire/parse-json.ts";
import type { ModelServer } from "./model-server.ts";

const PATIENCE_MS = 5_000;
const NAMES_SHOWN = 3;

type Answer =
  | { readonly type: "models"; readonly names: readonly string[] }
  | { readonly type: "status"; readonly status: number; readonly body: unknown }
  | { readonly type: "other" }
  | { readonly type: "none"; readonly sentence: string };

/** Asks for the list of models: how it stands, in a sentence, and what to do. Never rejects. */
export async function probeModel(server: ModelServer, signal: AbortSignal): Promise<RuntimeProbe> {
  const { where, model } = server;
  const answer = await askModels(server, server.url("/models"), signal);
  if (answer.type === "models") return judgeNames(server, answer.names);
  if (answer.type === "none") return { ok: false, detail: answer.sentence };
  if (answer.type === "status" && (answer.status === 401 || answer.status === 403)) {
    const detail = server.hasKey
      ? `${where} refuses the key (status ${answer.status}). Check the variable it comes from.`
      : `${where} wants a key (status ${answer.status}). Give it as \`key: \${NAME}\`.`;
    return { ok: false, detail };
  }
  if (await isUnderV1(server, signal)) {
    const detail = `There is nothing at this address, but there is at ${where}${server.baseUrl.pathname.replace(/\/+$/, "")}/v1: base_url lacks /v1.`;
    return { ok: false, detail };
  }
  if (answer.type === "other") {
    return {
      ok: false,
      detail: `${where} answers, but not with a list of models. Check base_url: it mostly ends in /v1.`,
    };
  }
  const said = readServerError(answer.body);
  const trouble = { type: "status", status: answer.status, said, retryAfterMs: null } as const;
  if (answer.status !== 404) return { ok: false, detail: failureOf(trouble, server).message };
  return {
    ok: false,
    detail: `${where} has no list of models at this address (status 404), so ${model} could not be looked up. Check base_url: it mostly ends in /v1.`,
  };
}

function judgeNames({ where, model }: ModelServer, names: readonly string[]): RuntimeProbe {
  if (names.some((name) => isNameOf(name, model))) return { ok: true, detail: `${where} has the model ${model}.` };
  if (names.length === 0)
    return { ok: false, detail: `${where} answers, but has no model. Load or pull ${model} there.` };
  const nearest = byNearness(model, names)
    .slice(0, NAMES_SHOWN)
    .map((name) => quoteUntrusted(name))
    .join(", ");
  return { ok: false, detail: `${where} does not have the model ${model}. The nearest it has: ${nearest}.` };
}

/** COMPAT: Ollama adds a tag, Google a folder. */
function isNameOf(listed: string, model: string): boolean {
  return (
    listed === model || listed === `${model}:latest` || listed === `models/${model}` || `models/${listed}` === model
  );
}

async function isUnderV1(server: ModelServer, signal: AbortSignal): Promise<boolean> {
  if (/\/v\d/.test(server.baseUrl.pathname)) return false;
  return (await askModels(server, below(server.baseUrl, "/v1/models"), signal)).type === "models";
}

const listShape = z.object({ data: z.array(z.object({ id: z.string() })) });

async function askModels(server: ModelServer, url: string, signal: AbortSignal): Promise<Answer> {
  const { clock } = server;
  const headers = { ...server.headers, ...listHeaders(server) };
  const connection = new Connection({ clock, signal });
  try {
    const waited = await connection.wait(async (): Promise<Answer> => {
      const response = await server.fetch(url, { headers, redirect: "manual", signal: connection.signal });
      const body = parseJson(await response.text());
      if (!response.ok) return { type: "status", status: response.status, body };
      const { data: list } = listShape.safeParse(body);
      return list === undefined ? { type: "other" } : { type: "models", names: list.data.map(({ id }) => id) };
    }, PATIENCE_MS);
    if (!("loss" in waited)) return waited.value;
    const { loss } = waited;
    if (loss.why === "broken") {
      return { type: "none", sentence: failureOf({ type: "connect", code: loss.code }, server).message };
    }
    const when = loss.why === "silence" ? "within 5 s" : "in time";
    return {
      type: "none",
      sentence: `${server.where} did not answer ${when}. Check base_url, and whether the server is busy.`,
    };
  } finally {
    connection.close();
  }
}

/** COMPAT: Anthropic's list of models belongs to its own API, which takes the key in a header of its own. */
function listHeaders({ baseUrl, headers }: ModelServer): Record<string, string> {
  const key = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1];
  return baseUrl.hostname !== "api.anthropic.com" || key === undefined ? {} : { "x-api-key": key };
}
