import { styleText } from "node:util";
import type { Standing } from "../../channel/console/transcript.ts";
import { type Clock, systemClock } from "../../util/clock.ts";
import { printable } from "../output.ts";
import { cutTo } from "./screen.ts";

/** Whoever gets an answer at once sees nothing of it. */
const QUIET_MS = 1_000;
const TICK_MS = 1_000;

export interface SignOfLifeOptions {
  readonly clock: Clock;
  /** Why there is no answer yet; null where nobody waits for one. */
  standing(): Standing | null;
  /** Null takes it away. */
  show(line: string | null): void;
}

/** SignOfLife: while somebody waits and sees nothing, what is going on and for how long. Gone with the next words. */
export class SignOfLife {
  readonly #options: SignOfLifeOptions;
  /** When the wait for the answer began, and when something was last seen of it; null: nobody waits. */
  #wait: { readonly beganAt: number; seenAt: number } | null = null;
  #cancel = (): void => undefined;

  constructor(options: SignOfLifeOptions) {
    this.#options = options;
  }

  /** Something was sent or heard, which may begin a wait or end it. */
  look(): void {
    const { clock, standing } = this.#options;
    if (standing() === null) this.end();
    else if (this.#wait === null) {
      this.#wait = { beganAt: clock.now(), seenAt: clock.now() };
      this.#later(QUIET_MS);
    }
  }

  /** Words were shown. */
  seen(): void {
    if (this.#wait === null) return;
    this.#wait.seenAt = this.#options.clock.now();
    this.#options.show(null);
    this.#later(QUIET_MS);
  }

  end(): void {
    this.#cancel();
    this.#wait = null;
    this.#options.show(null);
  }

  #later(ms: number): void {
    this.#cancel();
    this.#cancel = this.#options.clock.after(ms, () => this.#tick());
  }

  #tick(): void {
    const { clock, standing, show } = this.#options;
    const now = standing();
    if (now === null || this.#wait === null) {
      this.end();
      return;
    }
    show(`${describeStanding(now)}, ${elapsed(clock.now() - this.#wait.beganAt)}`);
    this.#later(TICK_MS);
  }
}

/** On standard error, where a person looks at it. */
export function signOnErrors(standing: () => Standing | null): SignOfLife {
  const { stderr } = process;
  let isShown = false;
  return new SignOfLife({
    clock: systemClock,
    standing: () => (stderr.isTTY ? standing() : null),
    show(line) {
      if (line === null && !isShown) return;
      isShown = line !== null;
      stderr.write(
        `\r\u001b[K${line === null ? "" : styleText("dim", cutTo(printable(line), stderr.columns - 1), { stream: stderr })}`,
      );
    },
  });
}

function describeStanding(standing: Standing): string {
  switch (standing.kind) {
    case "waiting":
      return `waits as ${ordinal(standing.place)}`;
    case "warming":
      return "the agent is warming up";
    case "thinking":
      return "thinking";
    case "tool":
      return standing.title;
  }
}

function elapsed(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function ordinal(n: number): string {
  const ending = n % 100 >= 11 && n % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${ending}`;
}
