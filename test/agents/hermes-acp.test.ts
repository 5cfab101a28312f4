import { test } from "vitest";
import { realHermes } from "../support/real-agents.ts";
import { announceMissing, hermesInstall } from "../support/real-hermes.ts";
import { acpAgentSuite } from "./acp-agent.suite.ts";

const install = await hermesInstall();
if (install.kind === "unavailable") {
  announceMissing(install);
  test.skip(`hermes acp: ${install.why}`);
} else {
  acpAgentSuite({ name: "hermes", make: realHermes, again: ["resumed"], asksBefore: "terminal", hangsUpLate: true });
}
