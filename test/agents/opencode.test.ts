import { realOpencode } from "../support/real-agents.ts";
import { acpAgentSuite } from "./acp-agent.suite.ts";

acpAgentSuite({ name: "opencode", make: realOpencode, again: ["resumed"], asksBefore: "bash" });
