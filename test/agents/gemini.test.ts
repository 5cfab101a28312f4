import { realGemini } from "../support/real-agents.ts";
import { acpAgentSuite } from "./acp-agent.suite.ts";

// Its session file is named after the minute: loaded in the minute it was made in, gemini 0.61.0 begins that file anew and has lost it.
acpAgentSuite({ name: "gemini", make: realGemini, again: ["loaded", "primed"], asksBefore: "run_shell_command" });
