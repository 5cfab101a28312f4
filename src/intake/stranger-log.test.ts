import { describe, expect, test } from "vitest";
import { createIdMask } from "../context/id-mask.ts";
import { maskedLog } from "../context/masked-log.ts";
import type { Source } from "../message/source.ts";
import { StrangerLog } from "./stranger-log.ts";

const ACCOUNT = { account: "mohe@test", agent: "mohe", platform: "xmpp" } as const;
const HOUR = 3_600_000;

function stage({ redactPii = false } = {}) {
  const lines: { fields: Record<string, unknown>; message: string }[] = [];
  const keep = (fields: object, message: string): void => void lines.push({ fields: { ...fields }, message });
  let now = 1_000;
  const log = maskedLog({ info: keep, warn: keep, error: keep }, () => createIdMask({ redactPii, secret: "s" }));
  const strangers = new StrangerLog({ log, clock: { now: () => now, after: () => () => undefined } });
  const says = (user: string, more: Partial<Source> = {}): void =>
    strangers.note(ACCOUNT, {
      platform: "xmpp",
      account: "mohe@test",
      chatId: user,
      chatType: "dm",
      userId: user,
      isBot: false,
      ...more,
    });
  const later = (ms: number): void => {
    now += ms;
  };
  return { lines, log, says, later };
}

/** The kind: a log that a stranger can make longer by writing more, or by calling himself otherwise. */
describe("F-SEC-13: log lines about strangers", () => {
  test("F-SEC-13: one line for a stranger in an hour, however much he writes, and then how many there were", () => {
    const { lines, says, later } = stage();
    for (let n = 0; n < 500; n++) says("eve@test");
    says("mallory@test");
    expect(lines.map(({ fields }) => fields.chat)).toEqual(["eve@test", "mallory@test"]);
    later(HOUR);
    says("eve@test");
    expect(lines.slice(2).map(({ fields }) => fields.messages ?? fields.chat)).toEqual([499, "eve@test"]);
  });

  test("F-SEC-13: twenty lines for whoever changes his nick with each word", () => {
    const { lines, says } = stage();
    for (let n = 0; n < 500; n++) says(`room@rooms.test/nick${n}`, { chatType: "group", chatId: "room@rooms.test" });
    expect(lines).toHaveLength(20);
  });

  test("F-SEC-13: a clock that is set back silences nobody for ever", () => {
    const { lines, says, later } = stage();
    later(HOUR);
    says("eve@test");
    later(-2 * HOUR);
    says("eve@test");
    expect(lines.filter(({ fields }) => fields.chat === "eve@test")).toHaveLength(2);
  });
});

/** The kind: whatever in a log line says who or where it was. */
describe("F-CTX-02: ids in the log", () => {
  test("F-CTX-02 C5: under redact_pii a stranger's address is a stand-in, the same as agents are shown", () => {
    const { lines, says } = stage({ redactPii: true });
    says("15550001111@test");
    expect(lines[0]?.fields.chat).toBe(createIdMask({ redactPii: true, secret: "s" }).chat("xmpp", "15550001111@test"));
    expect(JSON.stringify(lines)).not.toContain("15550001111");
  });

  test("F-CTX-02 C5: so is whoever a stanza is from or to, at every level", () => {
    const { lines, log } = stage({ redactPii: true });
    log.info({ from: "ann@test/phone" }, "a");
    log.warn({ to: "core@rooms.test/Ann" }, "b");
    log.error({ user: "42", account: "mohe@test" }, "c");
    expect(JSON.stringify(lines)).not.toMatch(/ann@test|Ann|"42"/);
    expect(lines[2]?.fields.account).toBe("mohe@test");
  });

  test("F-CTX-02: without the setting they are as they are", () => {
    const { lines, says } = stage();
    says("ann@test");
    expect(lines[0]?.fields.chat).toBe("ann@test");
  });
});
