import type { Config } from "../config/config.ts";
import { asTertuliaError } from "../errors.ts";
import type { StoreReader } from "../store/readers.ts";
import { hasState, openSqliteReader } from "../store/sqlite/sqlite-store.ts";
import { type Client, connect } from "./client.ts";

/** The same question, put to a running gateway or to its file. */
export interface StateQuestion<T> {
  gateway(client: Client): Promise<T>;
  file(reader: StoreReader): Promise<T>;
}

/** E4: asks the gateway while one runs, else the file, which is opened for this one answer. Null: there is neither yet. */
export async function readState<T>(config: Config, question: StateQuestion<T>): Promise<T | null> {
  const client = await gatewayIfAny(config);
  if (client !== null) return question.gateway(client);
  if (!hasState(config.files)) return null;
  const { reader, close } = openSqliteReader(config.files.state, config.files.lock);
  try {
    return await question.file(reader);
  } finally {
    close();
  }
}

/** Null where none runs. */
export async function gatewayIfAny(config: Config): Promise<Client | null> {
  try {
    return await connect(config);
  } catch (cause) {
    if (asTertuliaError(cause).code === "gateway_down") return null;
    throw cause;
  }
}

/** What is not there is null; every other refusal stays one. */
export async function orNull<T>(
  answer: Promise<T>,
  code: "conversation_unknown" | "session_unknown",
): Promise<T | null> {
  try {
    return await answer;
  } catch (cause) {
    if (asTertuliaError(cause).code === code) return null;
    throw cause;
  }
}

/** Null for one that is not there. */
export function sessionById(config: Config, id: string): Promise<unknown> {
  return readState(config, {
    gateway: (client) =>
      orNull(client.get(`/api/sessions/${encodeURIComponent(id)}/messages?limit=1`), "session_unknown"),
    file: (reader) => reader.session(id),
  });
}
