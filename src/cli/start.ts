import { join } from "node:path";
import type { Command } from "commander";
import { judged } from "../gateway/judge.ts";
import { followConfig, startGateway } from "../gateway/start.ts";
import { rightsOfOthers } from "../util/rights.ts";
import { isLoopback, letIn, trustedOverHttp } from "./access-summary.ts";
import { createLog } from "./log.ts";
import { output, printable } from "./output.ts";

export function startCommand(command: Command): void {
  command
    .option("--port <n>", "port to listen on (TERTULIA_PORT; default 8378; 0 takes any free one)")
    .option("--host <address>", "address to listen on (default 127.0.0.1)")
    .action(() => start(command.optsWithGlobals()));
}

/** `tertulia start`: one screen, then it serves until it is told to end. */
async function start(flags: { home?: string; config?: string; port?: string; host?: string }): Promise<void> {
  const { config, warnings } = judged({ flags });
  // A person's screen is for people: the log's lines go to a file then, else to standard error.
  const logFile = process.stderr.isTTY ? join(config.home, "gateway.log") : undefined;
  const log = await createLog(config, logFile);
  const warn = (sentences: readonly string[]): void => {
    for (const sentence of sentences) log.warn({}, sentence);
  };
  const reload = () => {
    const again = judged({ flags });
    warn(again.warnings);
    return again.config;
  };
  warn(warnings);
  const running = await startGateway({ config, log });
  const following = followConfig({ gateway: running.gateway, load: reload, log });
  const readyMs = Math.round(performance.now());
  const agents = Object.values(config.agents).map((agent) => `${agent.displayName} (runtime ${agent.runtime})`);
  const { http, files } = config;
  const elsewhere = isLoopback(http.host) ? "nobody" : "bearers of a token";
  const who = `over HTTP ${trustedOverHttp(http)}; from elsewhere ${elsewhere}`;
  const openTo = rightsOfOthers(files.secrets);
  output(
    [
      `Tertulia is ready at ${running.url} (${readyMs} ms)`,
      "",
      `  state    ${config.home}`,
      `  config   ${config.files.config ?? "none: everything at its default"}`,
      `  agents   ${agents.join(", ")}`,
      `  who      ${[who, ...letIn(config)].join("; ")}`,
      `  token    in ${files.token}; \`tertulia token\` prints it`,
      ...warnings.map((warning) => `  warning  ${printable(warning)}`),
      `  log      ${logFile === undefined ? "standard error" : logFile} (level ${config.log.level})`,
      ...(openTo === null
        ? []
        : [`  warning  others can read ${files.secrets} (${openTo}): run chmod 0600 ${files.secrets}`]),
      "",
      "Talk to it:",
      "  tertulia chat                          in another terminal (in a checkout: npm run tertulia -- chat)",
      `  curl ${running.url}/v1/chat/completions -H 'content-type: application/json' \\`,
      `    -H "authorization: Bearer $(cat ${quoted(files.token)})" \\`,
      `    -d '{"user":"me","messages":[{"role":"user","content":"hello"}]}'`,
      "",
      "Ctrl-C stops it.",
    ].join("\n"),
  );
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => resolve());
  process.on("SIGHUP", () => void following.reread());
  await promise;
  following.stop();
  await running.stop();
}

/** As a word of the shell. */
function quoted(path: string): string {
  return /^[\w./~+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
