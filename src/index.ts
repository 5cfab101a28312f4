/** Index: what an embedder imports. Each driver has an entry of its own in the package, such as `tertulia/store/sqlite/sqlite-store`. */

// The ports, for drivers of one's own.
export type { Channel, Inbox, MessageSender } from "./channel/channel.ts";
// A gateway in this process.
export { type Config, loadConfig } from "./config/config.ts";
// The nouns.
export { parseSessionKey, type SessionKey, sessionKeyFor } from "./conversation/session-key.ts";
export type { Engine } from "./engine/engine.ts";
// What it tells.
export { type ErrorCode, TertuliaError } from "./errors.ts";
export type { GatewayEvent, GatewayEvents } from "./events.ts";
export { Gateway, type GatewayOptions } from "./gateway/gateway.ts";
export { type RunningGateway, startGateway } from "./gateway/start.ts";
export type { Said, SayRequest } from "./intake/local-doors.ts";
export type { Fate, Message } from "./message/message.ts";
export { describeSource, type Source } from "./message/source.ts";
export { sourceFromJson, sourceToJson } from "./message/source-json.ts";
export type { Target } from "./message/target.ts";
export type { AgentSession, Runtime, TurnEvent, TurnInput, TurnResult } from "./runtime/runtime.ts";
export type { Store } from "./store/port.ts";
