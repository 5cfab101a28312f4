/** What goes wrong with Hermes, where its sentence is another than that of a plain model. */

import { TertuliaError } from "../../errors.ts";
import { quoteUntrusted } from "../../text/untrusted.ts";
import { saysOverflow } from "../overflow.ts";
import type { RuntimeFailure } from "../runtime.ts";
import { failureOf, nameOf, type Scene, type Trouble } from "../wire/failures.ts";
import { type Asked, isSessionUnknown } from "./hermes-server.ts";

export interface HermesScene extends Scene {
  readonly hasKey: boolean;
}

/** `isTaken`: the agent was already at work, so what is said is its own trouble, not that of the request. */
export function hermesFailure(trouble: Trouble, scene: HermesScene, isTaken = false): RuntimeFailure {
  if (isTaken) return trouble.type === "status" ? agentFailure(trouble, scene) : failureOf(trouble, scene);
  if (isSessionUnknown(trouble)) return { kind: "session-gone", message: SESSION_GONE };
  const plain = failureOf(trouble, scene);
  const sentence = SENTENCES[nameOf(trouble)];
  return sentence === undefined ? plain : { ...plain, message: sentence(scene, trouble) };
}

/** What the server answered. Throws the signal's reason, or `runtime_failed` where there was no answer. */
export function answered<T>(asked: Asked<T>, scene: HermesScene, signal: AbortSignal): T {
  if ("value" in asked) return asked.value;
  signal.throwIfAborted();
  const why = "trouble" in asked ? hermesFailure(asked.trouble, scene).message : "Hermes was not asked to the end.";
  throw new TertuliaError("runtime_failed", why);
}

export const SESSION_GONE =
  "Hermes does not know this session any more. Ask again: it is begun anew with what was said so far.";

const SENTENCES: Partial<Record<ReturnType<typeof nameOf>, (scene: HermesScene, trouble: Trouble) => string>> = {
  "key-refused": ({ where, hasKey }, trouble) => {
    if (trouble.type === "status" && trouble.status === 403) {
      return `Hermes at ${where} keeps no session without a key (status 403). Set API_SERVER_KEY there, and \`key\` to the same here.`;
    }
    return hasKey
      ? `Hermes at ${where} refuses the key. Set \`key\` to its API_SERVER_KEY.`
      : `Hermes at ${where} wants a key. Set \`key\` to its API_SERVER_KEY.`;
  },
  "path-unknown": ({ where }, trouble) =>
    `There is no API of Hermes at this address of ${where} (${trouble.type === "status" ? `status ${trouble.status}` : "no status"}). Check base_url: it ends before /v1.`,
  overflow: ({ where }) => `The message is too long for Hermes at ${where}. Send less at once.`,
  "no-stream": noHermes,
  garbled: noHermes,
};

function noHermes({ where }: HermesScene): string {
  return `What answers at ${where} does not speak as Hermes does. Check base_url, and whether a proxy stands between.`;
}

/** What the agent says of its own model or tools; a stranger's words. */
function agentFailure(trouble: Trouble & { type: "status" }, { mask }: HermesScene): RuntimeFailure {
  const { said, retryAfterMs } = trouble;
  const words = said.message === "" ? "." : `: ${quoteUntrusted(mask(said.message))}`;
  if (saysOverflow(`${said.code} ${said.message}`)) {
    return { kind: "overflow", message: `The conversation is too long for the model of Hermes${words}` };
  }
  return {
    kind: trouble.status === 429 ? "rate-limited" : "refused",
    message: `Hermes could not finish the answer${words}`,
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
  };
}
