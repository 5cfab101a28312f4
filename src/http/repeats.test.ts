import { EventEmitter } from "node:events";
import { describe, expect, test } from "vitest";
import type { Said } from "../intake/local-doors.ts";
import { Repeats } from "./repeats.ts";

const MINUTE = 60_000;

class Response extends EventEmitter {
  writableFinished = false;
  ends(): void {
    this.writableFinished = true;
    this.emit("close");
  }
  isCut(): void {
    this.emit("close");
  }
}

/** Requests with the same words; each new message has the next number. */
function desk({ startedAt = -1_000 * MINUTE, before = null as Said | null } = {}) {
  let now = 0;
  let messages = 0;
  const repeats = new Repeats({ startedAt, now: () => now });
  const said = (messageId: number) => ({ messageId }) as Said;
  const ask = async (isRepeat: boolean, { mark = "yes", response = new Response(), fails = false } = {}) => {
    const taken = repeats.take({
      mark,
      isRepeat,
      response,
      say: async () => {
        if (fails) throw new Error("refused");
        return said(++messages);
      },
      recall: async () => before,
    });
    return { response, message: (await taken).messageId };
  };
  return {
    asks: (more: Parameters<typeof ask>[1] = {}) => ask(false, more),
    repeats: (more: Parameters<typeof ask>[1] = {}) => ask(true, more),
    waits: (ms: number) => {
      now += ms;
    },
  };
}

// The kind: what is a repeat, by what became of the response before it.
describe("F-HTTP-04 T3 which request a repeat is of", () => {
  test("F-HTTP-04: of one that was cut, or whose client has gone without a word, as often as it is cut", async () => {
    const { asks, repeats } = desk();
    const first = await asks();
    expect((await repeats()).message).toBe(first.message);
    first.response.isCut();
    const second = await repeats();
    expect(second.message).toBe(first.message);
    second.response.isCut();
    const third = await repeats();
    expect(third.message).toBe(first.message);
    third.response.ends();
    expect((await repeats()).message).not.toBe(first.message);
  });

  test("F-HTTP-04: of none that has come to its end, was refused, or had other words", async () => {
    const { asks, repeats } = desk();
    const first = await asks();
    first.response.ends();
    expect((await repeats()).message).toBe(2);
    await expect(asks({ mark: "no", fails: true })).rejects.toThrow("refused");
    expect((await repeats({ mark: "no" })).message).toBe(3);
    expect((await repeats({ mark: "other" })).message).toBe(4);
  });

  test("F-HTTP-04: what is not marked is new, and of two with the same words the cut one is repeated", async () => {
    const { asks, repeats } = desk();
    const open = await asks();
    const cut = await asks();
    expect(cut.message).not.toBe(open.message);
    cut.response.isCut();
    expect((await repeats()).message).toBe(cut.message);
  });

  test("F-HTTP-04: for ten minutes after the cut, however long it was open", async () => {
    const { asks, repeats, waits } = desk();
    const first = await asks();
    waits(30 * MINUTE);
    first.response.isCut();
    waits(10 * MINUTE);
    const again = await repeats();
    expect(again.message).toBe(first.message);
    again.response.isCut();
    waits(10 * MINUTE + 1);
    expect((await repeats()).message).not.toBe(first.message);
  });

  test("F-HTTP-04: of one that a gateway before was killed in, while that is not long ago", async () => {
    const before = { messageId: 77 } as Said;
    const recent = desk({ startedAt: 0, before });
    expect((await recent.asks()).message).toBe(1);
    expect((await recent.repeats({ mark: "another" })).message).toBe(77);
    recent.waits(11 * MINUTE);
    expect((await recent.repeats({ mark: "a third" })).message).toBe(2);
    expect((await desk({ startedAt: 0 }).repeats()).message).toBe(1);
  });
});
