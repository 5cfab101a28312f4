/** Writes digests of its own into a home, one after the other: the other half of a race. */
import { randomBytes } from "node:crypto";
import { DEFAULT_DIGEST, sectionOf } from "../../src/digest/digest.ts";
import { writeDigest } from "../../src/digest/files.ts";

const [home = "", name = "", count = ""] = process.argv.slice(2);
for (let i = 0; i < Number(count); i++) {
  const rows = [{ role: "user", text: `${name.repeat(200)} ${i}`, at: 1_764_460_800_000 + i } as const];
  const section = sectionOf({ platform: "telegram", sessionId: "s", rows }, DEFAULT_DIGEST);
  const digest = { sections: section === null ? [] : [section], notes: [] };
  writeDigest(
    digest,
    { lang: "en", timezone: "UTC" },
    { home, now: Date.now(), nonce: () => randomBytes(6).toString("hex") },
  );
}
