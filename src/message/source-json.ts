/** The wire form of a Source (S2): what HTTP requests, `explain --source` and the store's `source` column hold. */

import {
  CHAT_TYPES,
  type ChatType,
  PLATFORMS,
  type Platform,
  requireAddress,
  type Source,
  sourceInvalid,
} from "./source.ts";

/** A source on the wire. Absent fields stay absent; when read, `null` counts as absent and unknown keys are ignored. */
export interface SourceJson {
  readonly platform: Platform;
  readonly account: string;
  readonly scope_id?: string;
  readonly chat_id?: string;
  readonly chat_name?: string;
  readonly chat_type: ChatType;
  readonly chat_topic?: string;
  readonly thread_id?: string;
  readonly parent_chat_id?: string;
  readonly parent_chat_type?: ChatType;
  readonly user_id?: string;
  readonly user_id_alt?: string;
  readonly user_name?: string;
  readonly is_bot: boolean;
  readonly message_id?: string;
}

type Wire = Readonly<Record<string, unknown>>;

/** The optional texts: [on the wire, in the source, how it is read]. The four other fields have defaults or must be there. */
const OPTIONAL = [
  ["scope_id", "scopeId", readId],
  ["chat_id", "chatId", readId],
  ["chat_name", "chatName", readText],
  ["chat_topic", "chatTopic", readText],
  ["thread_id", "threadId", readId],
  ["parent_chat_id", "parentChatId", readId],
  ["parent_chat_type", "parentChatType", readChatType],
  ["user_id", "userId", readId],
  ["user_id_alt", "userIdAlt", readId],
  ["user_name", "userName", readText],
  ["message_id", "messageId", readId],
] as const;

/** S2. `sourceFromJson(sourceToJson(source))` is the same source again. */
export function sourceToJson(source: Source): SourceJson {
  const json: Record<string, unknown> = {
    platform: source.platform,
    account: source.account,
    chat_type: source.chatType,
    is_bot: source.isBot,
  };
  for (const [wire, field] of OPTIONAL) {
    if (source[field] !== undefined) json[wire] = source[field];
  }
  return json as unknown as SourceJson;
}

/**
 * S2, S3. Reads field by field, so what is not a field of ours (authorised, is-self, mentioned) has no effect. A missing
 * chat type reads `dm`; a missing account reads as the platform's name, the account of a platform that has only one.
 * Texts are taken as they are: cleaning (S6) is the edge's. Throws `source_invalid`, naming the field.
 */
export function sourceFromJson(json: unknown): Source {
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    throw sourceInvalid("the source", "must be a JSON object");
  }
  const wire = json as Wire;
  const platform = readPlatform(wire);
  const fields: Record<string, unknown> = {
    platform,
    account: readId(wire, "account") || platform,
    chatType: readChatType(wire, "chat_type") ?? "dm",
    isBot: readFlag(wire, "is_bot") ?? false,
  };
  for (const [name, field, read] of OPTIONAL) {
    const value = read(wire, name);
    if (value !== undefined) fields[field] = value;
  }
  const source = fields as unknown as Source;
  requireAddress(source);
  return source;
}

function readPlatform(wire: Wire): Platform {
  const text = readText(wire, "platform");
  if (text === undefined) throw sourceInvalid("platform", "is missing");
  const known = PLATFORMS.find((platform) => platform === text);
  if (known === undefined) throw sourceInvalid("platform", `${quote(text)} is none of ${PLATFORMS.join(", ")}`);
  return known;
}

function readChatType(wire: Wire, field: string): ChatType | undefined {
  const text = readText(wire, field);
  if (text === undefined) return undefined;
  const known = CHAT_TYPES.find((type) => type === text);
  if (known === undefined) throw sourceInvalid(field, `${quote(text)} is none of ${CHAT_TYPES.join(", ")}`);
  return known;
}

/** Ids of some platforms are numbers. One beyond 2^53 has already lost digits when it gets here: it would be another chat (S1). */
function readId(wire: Wire, field: string): string | undefined {
  const value = wire[field];
  if (typeof value !== "number") return readText(wire, field);
  if (!Number.isSafeInteger(value)) {
    throw sourceInvalid(field, `is the number ${value}, which JavaScript does not hold exactly: send it as a string`);
  }
  return String(value);
}

function readText(wire: Wire, field: string): string | undefined {
  const value = wire[field] ?? undefined;
  if (value === undefined || typeof value === "string") return value;
  throw sourceInvalid(field, `must be a string, not ${quote(value)}`);
}

function readFlag(wire: Wire, field: string): boolean | undefined {
  const value = wire[field] ?? undefined;
  if (value === undefined || typeof value === "boolean") return value;
  throw sourceInvalid(field, `must be true or false, not ${quote(value)}`);
}

/** The refused value, short enough for a sentence. */
function quote(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : Array.isArray(value) ? "a list" : typeof value;
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
