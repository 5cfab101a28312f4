import { promptOf } from "../../src/runtime/prompt.ts";
import type { Runtime, TurnResult } from "../../src/runtime/runtime.ts";

/** A runtime of our own port that keeps all it was ever told of a session, in order, and answers `r7` to `w7`. */
export interface KnowingRuntime extends Runtime {
  /** The words and answers that it knows in the handle that is open, or was last. */
  known(sessionId: string): string[];
  /** The next turns fail. */
  failing: number;
  /** Turns say nothing before it. */
  hold: Promise<void>;
  opened: number;
}

export function createKnowingRuntime(options: {
  name: string;
  history: Runtime["history"];
  /** Whether a session that was parked is there again under its reference. */
  canResume: boolean;
}): KnowingRuntime {
  const memories = new Map<string, string>();
  const runtime: KnowingRuntime = {
    name: options.name,
    history: options.history,
    effectsAtPrompt: "none",
    failing: 0,
    hold: Promise.resolve(),
    opened: 0,
    known: (sessionId) => (memories.get(sessionId) ?? "").match(/\b[wr]\d+\b/g) ?? [],
    async open({ sessionId, ref, primer, exchanges }) {
      runtime.opened += 1;
      const isResumed = options.canResume && ref !== undefined && memories.has(sessionId);
      if (!isResumed) {
        const told = [
          ...primer.lines.map(({ text }) => text),
          ...(exchanges ?? []).flatMap(({ prompt, reply }) => [prompt, reply ?? ""]),
        ];
        memories.set(sessionId, told.join("\n"));
      }
      const learn = (text: string): void => void memories.set(sessionId, `${memories.get(sessionId)}\n${text}`);
      return {
        ref: `${options.name}-${sessionId}`,
        how: isResumed ? "resumed" : primer.total > 0 ? "primed" : "created",
        async turn(input, { onEvent }): Promise<TurnResult> {
          learn(promptOf({ ...input, facts: "" }));
          await runtime.hold;
          if (runtime.failing > 0) {
            runtime.failing -= 1;
            return { outcome: "failed", text: "", failure: { kind: "refused", message: "It was told to fail." } };
          }
          const text =
            input.text
              .match(/\bw\d+\b/g)
              ?.at(-1)
              ?.replace("w", "r") ?? "r";
          learn(text);
          await onEvent({ type: "text", text });
          return { outcome: "done", text };
        },
        park: async () => undefined,
        onDead: () => () => undefined,
      };
    },
    probe: async () => ({ ok: true, detail: "It only listens." }),
    forget: async () => undefined,
    close: async () => undefined,
  };
  return runtime;
}
