import { mkdirSync } from "node:fs";
import type { Command } from "commander";
import { type ConfigFlags, readConfig } from "../config/config.ts";
import { openOwnerToken, rotateOwnerToken } from "../gateway/owner-token.ts";
import { silentLog } from "../util/log.ts";
import { output } from "./output.ts";

export function tokenCommand(token: Command): void {
  token.addHelpText("after", "\nAlone it is `tertulia token show`, and takes its options.");
  token
    .command("show", { isDefault: true })
    .description("print it, and nothing else")
    .option("--json", "print it with its file as JSON")
    .addHelpText(
      "after",
      '\nExample: curl -H "authorization: Bearer $(tertulia token)" http://127.0.0.1:8378/api/whoami',
    )
    .action((_options, command) => tokenShow(command.optsWithGlobals()));
  token
    .command("rotate")
    .description("put a new one in its place, and print that; the old one stops at once, also at a running gateway")
    .option("--json", "print it with its file as JSON")
    .action((_options, command) => tokenRotate(command.optsWithGlobals()));
}

/** `tertulia token`: prints the owner's token, and nothing else; it is made where there is none yet. */
function tokenShow({ json, ...flags }: ConfigFlags & { json?: boolean }): void {
  const { home, files } = readConfig({ flags }).config;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  print(openOwnerToken(files.token, { log: silentLog }).current, files.token, json);
}

/** `tertulia token rotate`: puts a new one in its place and prints that. A gateway that runs takes it at once. */
function tokenRotate({ json, ...flags }: ConfigFlags & { json?: boolean }): void {
  const { home, files } = readConfig({ flags }).config;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  print(rotateOwnerToken(files.token), files.token, json);
}

function print(token: string, file: string, json = false): void {
  output(json ? JSON.stringify({ token, file }) : token);
}
