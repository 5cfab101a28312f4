import type { OpenRequest, Runtime, TurnInput } from "../../src/runtime/runtime.ts";

/** A runtime of our own port that answers `ok` and keeps what it was told. */
export interface RecordingRuntime extends Runtime {
  readonly opened: OpenRequest[];
  readonly turns: TurnInput[];
  /** While it is set, turns wait for it. */
  hold: Promise<void> | null;
}

export function createRecordingRuntime(): RecordingRuntime {
  const runtime: RecordingRuntime = {
    name: "recording",
    history: "own",
    effectsAtPrompt: "none",
    opened: [],
    turns: [],
    hold: null,
    async open(request) {
      runtime.opened.push(request);
      return {
        ref: request.sessionId,
        how: request.primer.total > 0 ? "primed" : "created",
        async turn(input, { onEvent }) {
          runtime.turns.push(input);
          await runtime.hold;
          await onEvent({ type: "text", text: "ok" });
          return { outcome: "done", text: "ok" };
        },
        park: async () => undefined,
        onDead: () => () => undefined,
      };
    },
    probe: async () => ({ ok: true, detail: "" }),
    forget: async () => undefined,
    close: async () => undefined,
  };
  return runtime;
}
