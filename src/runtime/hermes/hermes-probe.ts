import type { RuntimeProbe } from "../runtime.ts";
import { hermesFailure } from "./hermes-failures.ts";
import type { HermesServer } from "./hermes-server.ts";

/** What the newest Hermes offers that we would use, and what it means when one does not. */
const ABILITIES: readonly (readonly [feature: string, without: string])[] = [
  ["chat_completions_streaming", "no streamed answers, so no turns"],
  ["session_resources", "no list of sessions, so a lost one is not noticed"],
  ["tool_progress_events", "no word of its tools"],
];

/** How Hermes stands, in a sentence, and what to do. Never rejects. */
export async function probeHermes(server: HermesServer, signal: AbortSignal): Promise<RuntimeProbe> {
  const asked = await server.capabilities(signal);
  if ("cancelled" in asked) return { ok: false, detail: `${server.where} was not asked to the end.` };
  if ("trouble" in asked) return { ok: false, detail: hermesFailure(asked.trouble, server).message };
  const { features, keyRequired } = asked.value;
  const version = await server.version(signal);
  const known = version === undefined ? {} : { version };
  const name = version === undefined ? "Hermes" : `Hermes ${version}`;
  if (!keyRequired || !server.hasKey) {
    const detail = `${name} answers at ${server.where}, but keeps no session without a key. Set API_SERVER_KEY there, and \`key\` to the same here.`;
    return { ok: false, ...known, detail };
  }
  if (features === null) {
    if (version === undefined && !(await server.isThere(signal))) {
      return { ok: false, detail: `What answers at ${server.where} is no Hermes. Check base_url: it ends before /v1.` };
    }
    return {
      ok: true,
      ...known,
      detail: `${name} answers at ${server.where}; it is an old one, with no list of sessions.`,
    };
  }
  const missing = ABILITIES.filter(([feature]) => features[feature] !== true).map(([, without]) => without);
  const lacks = missing.length === 0 ? "" : ` It has ${missing.join("; ")}.`;
  return {
    ok: features.chat_completions_streaming === true,
    ...known,
    detail: `${name} answers at ${server.where}.${lacks} Dangerous commands are not asked about over this API; Hermes holds them back.`,
  };
}
