/**
 * What every Runtime promises. The agent behind it must obey the words of the demo agent (`say`, `count`, `slow`, `history`, `fail`, `die`);
 * `history` must hold what a primer, missed lines and, where the gateway keeps the history, exchanges told it.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { promptOf } from "../../src/runtime/prompt.ts";
import type {
  AgentSession,
  Exchange,
  HistoryLine,
  OpenRequest,
  Runtime,
  RuntimeFailure,
  TurnEvent,
  TurnInput,
  TurnResult,
} from "../../src/runtime/runtime.ts";

export interface RuntimeUnderTest {
  readonly runtime: Runtime;
  dispose(): Promise<void>;
}

export interface RuntimeAbilities {
  /** `no` for an agent that is no process and holds nothing: it cannot be lost. */
  readonly die?: "yes" | "no";
  /** `no` for an agent whose refusals the model behind it cannot bring about. */
  readonly fail?: "yes" | "no";
}

const EARLIER: readonly HistoryLine[] = [
  { role: "user", text: "my parrot is called Kiwi" },
  { role: "assistant", text: "a fine name" },
];

const EXCHANGES: readonly Exchange[] = [
  {
    turnId: 1,
    prompt: promptOf({ facts: "", missed: [], text: "my parrot is called Kiwi" }),
    reply: "a fine name",
    mark: null,
  },
];

export function runtimeContract(
  name: string,
  create: () => Promise<RuntimeUnderTest>,
  { die = "yes", fail = "yes" }: RuntimeAbilities = {},
): void {
  describe(`runtime contract: ${name}`, () => {
    let subject: RuntimeUnderTest;
    beforeEach(async () => {
      subject = await create();
    });
    afterEach(async () => {
      await subject.runtime.close();
      await subject.dispose();
    });
    const open = (more: Partial<OpenRequest> = {}): Promise<AgentSession> => subject.runtime.open(openRequest(more));
    /** As the gateway opens a session again: with what it knows of it. */
    const reopen = ({ ref }: AgentSession): Promise<AgentSession> =>
      subject.runtime.history === "gateway"
        ? open({ ref, exchanges: EXCHANGES })
        : open({ ref, primer: { total: 2, lines: EARLIER } });

    test("B5: a session that never was is created", async () => {
      const session = await open();
      expect(session.how).toBe("created");
      expect(session.ref).not.toBe("");
      await session.park();
    });

    test("B3: the context is kept from turn to turn", async () => {
      const session = await open();
      await ask(session, "say the parrot is called Kiwi");
      expect((await ask(session, "history")).text).toContain("the parrot is called Kiwi");
    });

    test("O6: the streamed text is the text of the result", async () => {
      const session = await open();
      const heard: TurnEvent[] = [];
      const result = await ask(session, "count 20", { onEvent: (event) => void heard.push(event) });
      expect(result.outcome).toBe("done");
      expect(result.text).toBe(Array.from({ length: 20 }, (_, i) => i + 1).join(" "));
      expect(heard.map((event) => (event.type === "text" ? event.text : "")).join("")).toBe(result.text);
      expect((await ask(session, "say NO_REPLY")).text).toBe("NO_REPLY");
    });

    test("T8: nothing more is said before the event before it was taken", async () => {
      const session = await open();
      let taking = 0;
      let mostAtOnce = 0;
      await ask(session, "count 5", {
        async onEvent() {
          taking++;
          mostAtOnce = Math.max(mostAtOnce, taking);
          await Promise.resolve();
          taking--;
        },
      });
      expect(mostAtOnce).toBe(1);
    });

    test("T1: a second turn at the same time is refused, and the first goes on", async () => {
      const session = await open();
      const first = startSlow(session);
      await first.heard;
      await expect((async () => ask(session, "say me too"))()).rejects.toThrow();
      first.cancel.abort();
      expect((await first.result).outcome).toBe("cancelled");
    });

    test("T7: a cancelled turn ends soon, with what was said; the next one is answered", async () => {
      const session = await open();
      const slow = startSlow(session);
      await slow.heard;
      const cancelledAt = performance.now();
      slow.cancel.abort();
      const result = await slow.result;
      expect(performance.now() - cancelledAt).toBeLessThan(2_000);
      expect(result.outcome).toBe("cancelled");
      expect(result.text).toMatch(/^1/);
      expect(await ask(session, "say still here")).toMatchObject({ outcome: "done", text: "still here" });
    });

    test("T7: a turn that is cancelled before it begins says nothing", async () => {
      const session = await open();
      const result = await ask(session, "say hello", { signal: AbortSignal.abort() });
      expect(result).toMatchObject({ outcome: "cancelled", text: "" });
    });

    const dies = async (): Promise<void> => {
      const session = await open();
      const deaths: RuntimeFailure[] = [];
      session.onDead((failure) => deaths.push(failure));
      const stopListening = session.onDead(() => expect.unreachable());
      stopListening();
      await ask(session, "say the parrot is called Kiwi");
      const result = await ask(session, "die");
      expect(result).toMatchObject({ outcome: "failed", failure: { kind: "process-died" } });
      expect((await ask(session, "say hello")).outcome).toBe("failed");
      await session.park();
      expect(deaths.map((failure) => failure.kind)).toEqual(["process-died"]);

      const again = await reopen(session);
      expect(again.how).not.toBe("created");
      expect((await ask(again, "history")).text).toContain("Kiwi");
    };
    if (die === "yes") {
      test(
        "B5: an agent that dies says so once, in the turn and to who listens, and knows the earlier lines when opened again",
        dies,
      );
    }

    const fails = async (): Promise<void> => {
      const session = await open();
      const result = await ask(session, "fail");
      expect(result).toMatchObject({ outcome: "failed", failure: { kind: "refused" } });
      expect(result.failure?.message).not.toBe("");
      expect((await ask(session, "say better")).text).toBe("better");
    };
    if (fail === "yes") test("B5: a failure of the agent is typed in the result, with a sentence", fails);

    test("B4: parking is safe to repeat, and the context is not lost", async () => {
      const session = await open();
      await ask(session, "say my parrot is called Kiwi");
      await session.park();
      await session.park();
      const again = await reopen(session);
      expect(again.how).not.toBe("created");
      expect((await ask(again, "history")).text).toContain("Kiwi");
      await subject.runtime.forget(session.ref);
      await subject.runtime.forget(session.ref);
    });

    test("B7: lines the agent missed reach it with the next turn", async () => {
      const session = await open();
      await ask(session, "say hello", { missed: [{ role: "assistant", text: "said elsewhere: 4711" }] });
      expect((await ask(session, "history")).text).toContain("4711");
    });

    test("B8: an aborted open rejects, and after close nothing opens", async () => {
      await expect(open({ signal: AbortSignal.abort() })).rejects.toThrow();
      await subject.runtime.close();
      await subject.runtime.close();
      await expect(open()).rejects.toMatchObject({ code: "runtime_failed" });
    });

    test("E3: a probe says how it stands", async () => {
      expect(await subject.runtime.probe(new AbortController().signal)).toMatchObject({ ok: true });
    });
  });
}

export function openRequest(more: Partial<OpenRequest> = {}): OpenRequest {
  return {
    sessionId: "s-contract",
    sessionKey: "agent:demo:console",
    stablePart: "Source: CLI terminal",
    primer: { total: 0, lines: [] },
    signal: new AbortController().signal,
    ...more,
  };
}

export interface AskOptions extends Partial<TurnInput> {
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: TurnEvent) => void | Promise<void>;
}

export function ask(session: AgentSession, text: string, options: AskOptions = {}): Promise<TurnResult> {
  const { signal = new AbortController().signal, onEvent, ...more } = options;
  const input = { turnId: 1, facts: "", text, missed: [], ...more };
  return session.turn(input, { signal, onEvent: async (event) => onEvent?.(event) });
}

/** `heard` settles with the first words. */
export function startSlow(session: AgentSession, text = "slow 1000") {
  const cancel = new AbortController();
  const heard = Promise.withResolvers<TurnEvent>();
  const onEvent = (event: TurnEvent): void => {
    if (event.type === "text") heard.resolve(event);
  };
  const result = ask(session, text, { signal: cancel.signal, onEvent });
  return { cancel, heard: heard.promise, result };
}
