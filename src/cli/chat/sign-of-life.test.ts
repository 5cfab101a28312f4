import { expect, test } from "vitest";
import { createManualClock } from "../../../test/support/manual-clock.ts";
import type { Standing } from "../../channel/console/transcript.ts";
import { SignOfLife } from "./sign-of-life.ts";

function waiter() {
  const clock = createManualClock();
  let standing: Standing | null = null;
  let line: string | null = null;
  const sign = new SignOfLife({ clock, standing: () => standing, show: (shown) => (line = shown) });
  return {
    clock,
    sign,
    stands(next: Standing | null): void {
      standing = next;
      sign.look();
    },
    get line() {
      return line;
    },
  };
}

test("F-TTY-04 nothing within a second, then the reason with the elapsed time, and nothing after the end", async () => {
  const at = waiter();
  at.stands({ kind: "warming" });
  await at.clock.advance(999);
  expect(at.line).toBeNull();
  await at.clock.advance(1);
  expect(at.line).toBe("the agent is warming up, 1 s");
  at.stands({ kind: "thinking" });
  await at.clock.advance(64_000);
  expect(at.line).toBe("thinking, 1 min 5 s");
  at.stands(null);
  expect(at.line).toBeNull();
  expect(at.clock.pending).toBe(0);
});

test("F-TTY-04 words take it away; it comes back when they stop, with the time of the whole wait", async () => {
  const at = waiter();
  at.stands({ kind: "waiting", place: 3 });
  await at.clock.advance(2_000);
  expect(at.line).toBe("waits as 3rd, 2 s");
  at.sign.seen();
  expect(at.line).toBeNull();
  at.stands({ kind: "tool", title: "Reading" });
  await at.clock.advance(500);
  at.sign.seen();
  await at.clock.advance(999);
  expect(at.line).toBeNull();
  await at.clock.advance(1);
  expect(at.line).toBe("Reading, 3 s");
  at.sign.end();
  expect([at.line, at.clock.pending]).toEqual([null, 0]);
});

test("F-TTY-04 words of others, while nobody waits here, begin nothing", async () => {
  const at = waiter();
  at.sign.seen();
  at.sign.look();
  await at.clock.advance(5_000);
  expect([at.line, at.clock.pending]).toEqual([null, 0]);
});
