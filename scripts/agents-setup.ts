/** Installs the agents of others that `npm run test:agents` tests against. One that cannot be had is an error; Hermes, whose Python may be missing, is named. */
import { GEMINI, installNpmAgents, OPENCODE } from "../test/support/agent-installs.ts";
import { announceMissing, hermesInstall } from "../test/support/real-hermes.ts";

await installNpmAgents([OPENCODE, GEMINI]);
const hermes = await hermesInstall();
if (hermes.kind === "unavailable") announceMissing(hermes);
