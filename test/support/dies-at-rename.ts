/** Replaces a file, and is killed when everything but the rename has been done: the system call itself is the trigger. */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

fs.renameSync = () => {
  process.kill(process.pid, "SIGKILL");
};
syncBuiltinESMExports();

const { replaceFile } = await import("../../src/digest/replace-file.ts");
const [path = "", content = ""] = process.argv.slice(2);
replaceFile(path, () => Buffer.from(content), { now: 0, nonce: () => "0123456789ab" });
