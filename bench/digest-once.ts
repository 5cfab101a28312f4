/** Reads one digest in a process that has everything loaded already, and says what that took: `{"ms", "mb"}`. */
import { DEFAULT_DIGEST, readDigest } from "../src/digest/digest.ts";
import { createHermesTalks } from "../src/digest/hermes/talks.ts";
import { renderCompact, renderFull } from "../src/digest/render.ts";

const [path = ""] = process.argv.slice(2);
const before = process.memoryUsage().rss;
const from = performance.now();
const digest = await readDigest(createHermesTalks({ path }), DEFAULT_DIGEST, Date.now());
renderFull(digest, { lang: "en" });
renderCompact(digest, { lang: "en" });
const ms = performance.now() - from;
const mb = (process.resourceUsage().maxRSS * 1_024 - before) / 1_000_000;
if (digest.sections.length === 0) throw new Error("There was nothing to read.");
process.stdout.write(JSON.stringify({ ms, mb }));
