import { type Config, type ConfigFlags, readConfig } from "../config/config.ts";
import { asTertuliaError } from "../errors.ts";
import type { Settings } from "../http/routes/status.ts";
import { gatewayIfAny } from "./state.ts";
import { plural } from "./table.ts";

/**
 * The configuration of a command that asks the running gateway, or reads its state: one that is not good stops none of them. What a command
 * needs to know the gateway says then, as it goes by it.
 */
export async function clientConfig(flags: ConfigFlags): Promise<Config> {
  const { config, problems } = readConfig({ flags });
  if (problems.length === 0) return config;
  const client = await gatewayIfAny(config);
  if (client === null) return config;
  process.stderr.write(
    `[The configuration has ${plural(problems.length, "problem")}: the running gateway is asked. \`tertulia config check\` shows what is wrong.]\n`,
  );
  try {
    return { ...config, ...(await client.get<Settings>("/api/settings")) };
  } catch (cause) {
    // The token of a session's agent only sends (A6).
    if (asTertuliaError(cause).code !== "forbidden") throw cause;
    return config;
  }
}
