import { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { ReadStream, WriteStream } from "node:tty";
import { cleanText } from "../../message/source.ts";
import type { Clock } from "../../util/clock.ts";

const PASTE_BEGINS = "\u001b[200~";
const PASTE_ENDS = "\u001b[201~";
const BRACKETS = { on: "\u001b[?2004h", off: "\u001b[?2004l" } as const;

/** After the end of a line: what comes within this time came with it. Nobody types that fast. */
const SAME_MOMENT_MS = 5;
/** Between the pieces of a text that has shown itself to be several lines. */
export const SAME_TEXT_MS = 60;
/** A terminal that began a paste and does not end it. */
const LOST_END_MS = 1_000;

export interface KeyboardOptions {
  readonly input: ReadStream;
  readonly output: WriteStream;
  readonly clock: Clock;
  /** A text that came in one piece, without the line end behind it. */
  onPaste(text: string): void;
  /** Alt-Enter, Ctrl-J. */
  onNewLine(): void;
  /** Keys that are about to be passed on. */
  onKeys(keys: string): void;
}

/**
 * Keyboard: what comes from a terminal, told apart (S7): keys, which can be read here as they come, and texts that somebody did not type.
 * A terminal that knows bracketed paste says so itself; from any other one several lines that arrive together are such a text.
 */
export class Keyboard extends Readable {
  readonly isTTY = true;
  readonly #options: KeyboardOptions;
  readonly #decoder = new StringDecoder("utf8");
  readonly #onData = (bytes: Buffer): void => this.#take(this.#decoder.write(bytes));
  readonly #onGone = (): void => void this.emit("end");
  /** What came and is not told yet. */
  #held = "";
  /** typing → pasting (its beginning came) → typing. */
  #state: "typing" | "pasting" = "typing";
  #cancel = (): void => undefined;

  constructor(options: KeyboardOptions) {
    super();
    this.#options = options;
    options.input.on("data", this.#onData).once("end", this.#onGone).once("error", this.#onGone);
  }

  override _read(): void {
    // Keys are told in the moment they come, between the pastes: nothing waits to be read.
  }

  /** As a terminal's; pastes are bracketed while it is on, so that another program finds the terminal as it was. */
  setRawMode(isRaw: boolean): this {
    const { input, output } = this.#options;
    input.setRawMode(isRaw);
    output.write(isRaw ? BRACKETS.on : BRACKETS.off);
    return this;
  }

  /** The terminal is let go. */
  close(): void {
    this.#cancel();
    const { input } = this.#options;
    input.off("data", this.#onData).off("end", this.#onGone).pause();
  }

  #take(text: string): void {
    this.#cancel();
    this.#held += text;
    this.#read();
  }

  #read(): void {
    for (;;) {
      const mark = this.#state === "typing" ? PASTE_BEGINS : PASTE_ENDS;
      const at = this.#held.indexOf(mark);
      if (at < 0) break;
      const before = this.#held.slice(0, at);
      this.#held = this.#held.slice(at + mark.length);
      if (this.#state === "pasting") this.#pasted(before);
      else this.#typed(before);
      this.#state = this.#state === "typing" ? "pasting" : "typing";
    }
    const waitMs = this.#state === "pasting" ? LOST_END_MS : waitAfter(this.#held);
    if (waitMs === 0) this.#flush();
    else this.#cancel = this.#options.clock.after(waitMs, () => this.#flush());
  }

  #flush(): void {
    const text = this.#held;
    this.#held = "";
    if (this.#state === "pasting") this.#pasted(text);
    else this.#typed(text);
    this.#state = "typing";
  }

  #pasted(text: string): void {
    const clean = cleanText(text.replace(/\r\n?/g, "\n")).replace(/\n+$/, "");
    if (clean !== "") this.#options.onPaste(clean);
  }

  #typed(text: string): void {
    for (const piece of text.split(/(\u001b[\r\n])/)) {
      if (piece === "\n" || /^\u001b[\r\n]$/.test(piece)) this.#options.onNewLine();
      else if (isSeveralLines(piece)) {
        this.#pasted(piece);
        if (/[\r\n]$/.test(piece)) this.#pass("\r");
      } else if (piece !== "") this.#pass(piece.replace(/\n$/, "\r"));
    }
  }

  #pass(keys: string): void {
    // Keys that take something back may leave the line empty: what comes behind them begins a new one.
    for (const piece of keys.split(/(?<=[\u0003\b\u0015\u0017\u007f])/)) {
      this.#options.onKeys(piece);
      this.emit("data", Buffer.from(piece));
    }
  }
}

/** Whether more may belong to it, and how long that is waited for. */
function waitAfter(text: string): number {
  if (isSeveralLines(text)) return SAME_TEXT_MS;
  const isEndOfLine = text.length > 1 && /[\r\n]$/.test(text);
  // A single Enter may be in the middle of a text that comes in pieces; the beginning of a paste, or another key, in two.
  return isEndOfLine || text === "\r" || /\u001b(?:\[(?:20?0?)?)?$/.test(text) ? SAME_MOMENT_MS : 0;
}

/** Colours, as what another program printed has them. */
const COLOURS = /\u001b\[[\d;]*m/g;
/** Control characters that are keys here: what comes with one of them was typed. Others stand in texts: a form feed, a bell, a zero byte. */
const KEY = /[^\P{Cc}\t\r\n\0\u0007\v\f\u0080-\u009f]/u;

/** A line end with more behind it, and no key among it: nobody types that in one moment. */
function isSeveralLines(text: string): boolean {
  const plain = text.replace(COLOURS, "").replace(/[\u2028\u2029]/g, "\n");
  return /[\r\n][^\r\n]+(?:[\r\n]|$)/.test(plain.replace(/^[\r\n]+(?=[^\r\n]+$)/, "")) && !KEY.test(plain);
}
