import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { doorKey, httpStory } from "../support/http-stage.ts";

/** What other programs keep with a conversation, in the file and over HTTP (B6). */

// The kind: whatever stands in the column that is no JSON object.
describe("F-STO-02 B6 a state that cannot be read", () => {
  test.each(["{broken", "", "[]", "null", '"text"', "3", '{"a":1}{"b":2}'])(
    "F-STO-02 B6: %j is left out with a sentence, and the rest is told",
    (text) =>
      httpStory(async (stage) => {
        const body = { user: "me", messages: [{ role: "user", content: "say hi" }] };
        await stage.call({ path: "/v1/chat/completions", body });
        const path = `/api/conversations/${encodeURIComponent(doorKey("http", "me"))}/agent-state`;
        await stage.call({ method: "PATCH", path, body: { theirs: 1 } });
        const whole = (await stage.call({ path })).json<{ theirs: number; runtime_state: object }>();
        expect(whole).toMatchObject({ runtime: "demo", theirs: 1 });
        expect(whole).not.toHaveProperty("problem");

        using state = new DatabaseSync(stage.gateway.config.files.state);
        state.prepare("UPDATE conversation SET agent_state = ?").run(text);
        const { theirs: _, ...rest } = whole;
        const told = await stage.call({ path });
        expect(told.status).toBe(200);
        expect(told.json()).toEqual({ ...rest, problem: expect.stringMatching(/^What other programs keep .+\.$/) });
        const again = await stage.call({ method: "PATCH", path, body: { theirs: 2 } });
        expect([again.status, again.json()]).toEqual([200, { ...rest, theirs: 2 }]);
      })(),
  );
});
