import { mkdirSync } from "node:fs";
import { type ConfigFlags, readConfig } from "../config/config.ts";
import { openOwnerToken, rotateOwnerToken } from "../gateway/owner-token.ts";
import { silentLog } from "../util/log.ts";
import { output } from "./output.ts";

/** `tertulia token`: prints the owner's token, and nothing else; it is made where there is none yet. */
export function tokenShow({ json, ...flags }: ConfigFlags & { json?: boolean }): void {
  const { home, files } = readConfig({ flags }).config;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  print(openOwnerToken(files.token, { log: silentLog }).current, files.token, json);
}

/** `tertulia token rotate`: puts a new one in its place and prints that. A gateway that runs takes it at once. */
export function tokenRotate({ json, ...flags }: ConfigFlags & { json?: boolean }): void {
  const { home, files } = readConfig({ flags }).config;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  print(rotateOwnerToken(files.token), files.token, json);
}

function print(token: string, file: string, json = false): void {
  output(json ? JSON.stringify({ token, file }) : token);
}
