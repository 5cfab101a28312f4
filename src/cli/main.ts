import { enableCompileCache } from "node:module";
import { run } from "./run.ts";

enableCompileCache();
await run(process.argv.slice(2));
