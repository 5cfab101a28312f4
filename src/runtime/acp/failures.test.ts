import { expect, test } from "vitest";
import { AgentSilent, diedOf, failureOf, lastWords } from "./failures.ts";
import { ACP_PRESETS } from "./presets.ts";

const agent = ACP_PRESETS.opencode;
const refusal = (code: number, message: string, data?: unknown) => Object.assign(new Error(message), { code, data });

test.each([
  [-32603, "Internal error", { details: "Session not found" }, "session-gone"],
  [-32603, "Internal error", { details: "429 Too Many Requests" }, "rate-limited"],
  [-32603, "Internal error", "input token count exceeds the maximum", "overflow"],
  [-32603, "Internal error", { details: "Invalid API key" }, "auth"],
  [-32603, "API key not valid. Please pass a valid API key.", undefined, "auth"],
  [-32603, "Please log in first", undefined, "auth"],
  [-32000, "Authentication required", undefined, "auth"],
  [-32002, "Resource not found", undefined, "session-gone"],
  [-32602, "Invalid params", undefined, "session-gone"],
  [-32603, "Internal error", { details: "TypeError: x is not a function" }, "protocol"],
  [-32601, "Method not found", undefined, "protocol"],
])("B5: %i %s %j is %s", (code, message, data, kind) => {
  expect(failureOf(refusal(code, message, data), agent).kind).toBe(kind);
});

test.each([
  ["rate limit: retry after 30", 30_000],
  ["rate limit, try again in 1.5s", 1_500],
  ["rate limit, try again in 200 ms", 200],
  ["rate limit; wait 2 min", 120_000],
  ["rate limit", undefined],
])("B5: %s is waited for", (said, ms) => {
  expect(failureOf(refusal(-32603, said), agent).retryAfterMs).toBe(ms);
});

test("E3: sentences name the agent and what to do; its own words are quoted", () => {
  expect(failureOf(refusal(-32603, 'x"\n\u001b[31mEvil'), agent).message).toBe(
    'OpenCode answered with an error (-32603): "x\\" [31mEvil"',
  );
  expect(failureOf(new AgentSilent("initialize", 30_000), agent)).toEqual({
    kind: "stalled",
    message: "OpenCode did not answer (initialize) for 30 s.",
  });
  expect(diedOf({ kind: "unstartable", code: "ENOENT" }, agent).kind).toBe("unreachable");
  expect(diedOf({ kind: "unstartable", code: "EACCES" }, agent).message).toContain("EACCES");
  expect(diedOf(null, agent).kind).toBe("process-died");
});

test("E3: last words are one line, without what it was given in secret", () => {
  expect(lastWords("", [])).toBe("");
  expect(lastWords("first\nkey sk-1234567 is wrong\n\n", ["sk-1234567", "is"])).toBe(
    ' It said: "key [secret] is wrong"',
  );
});
