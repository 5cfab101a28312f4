import type { Config } from "../config/config.ts";
import { deepFreeze, table } from "../config/data.ts";
import { asTertuliaError } from "../errors.ts";
import type { Bridge } from "../intake/bridge.ts";
import type { Log } from "../util/log.ts";

/**
 * Resolves each agent's `default_session` to a session of this gateway. One that cannot be spoken in is logged, and stops no agent (H10); one
 * of another program is called by its id here.
 */
export async function withDefaultSessions(
  config: Config,
  { bridge, log }: { readonly bridge: Bridge; readonly log: Log },
): Promise<Config> {
  if (Object.values(config.agents).every(({ defaultSession }) => defaultSession === undefined)) return config;
  const agents = table(config.agents, (agent) => agent);
  for (const { name, defaultSession } of Object.values(config.agents)) {
    if (defaultSession === undefined) continue;
    try {
      agents[name] = { ...agents[name]!, defaultSession: await bridge.defaultSession(name, defaultSession) };
    } catch (cause) {
      const { code, message, remedy } = asTertuliaError(cause);
      log.warn({ agent: name, code }, `agents.${name}.default_session is not spoken in: ${message} ${remedy}`);
    }
  }
  return deepFreeze({ ...config, agents });
}
