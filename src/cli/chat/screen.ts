import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from "node:readline";
import type { ReadStream, WriteStream } from "node:tty";
import { styleText } from "node:util";
import stringWidth from "string-width";
import type { Question, Shown } from "../../channel/console/transcript.ts";
import type { SayKind } from "../../intake/local-doors.ts";
import type { Clock } from "../../util/clock.ts";
import { printable } from "../output.ts";
import { Keyboard } from "./keyboard.ts";

const PROMPT = "> ";
const TAB = 8;
/** Stands for a line end in the line that is typed: one row after the other is left and right of the cursor, as in any line. */
const LINE_END = "↵";
/** A longer paste is folded in the line; it is sent whole. */
const UNFOLDED = { lines: 5, characters: 400 } as const;
/** The beginning of a command, with its name. */
const COMMAND_NAMED = /^\s*\/[a-z][\w-]*(?:@\S+)?\s/i;

export interface ScreenOptions {
  readonly input: ReadStream;
  readonly output: WriteStream;
  /** Newest first. */
  readonly history: readonly string[];
  readonly historySize: number;
  readonly clock: Clock;
  /** Whether a line that was just entered is one to go back to. */
  remembers(line: string): boolean;
  onEntered(entered: Entered): void;
  /** Ctrl-C; `line` is what is typed so far. */
  onInterrupt(line: string): void;
  /** Ctrl-D, or the terminal is gone. */
  onLeave(): void;
}

/** What was entered. `line`: by its shown form in the history, null where that does not say it all. */
export interface Entered {
  readonly text: string;
  /** S7: a line by itself, typed here; anything else is words. */
  readonly as: SayKind;
  readonly line: string | null;
}

/**
 * Screen: a terminal whose last rows are the line that is being typed; everything else is written above it, a streamed reply too. The
 * row on which a reply goes on is found again by the column where it was left, so nothing is ever drawn twice.
 */
export class Screen {
  readonly #output: WriteStream;
  readonly #lines: Interface;
  readonly #keyboard: Keyboard;
  /** Texts of the line that are folded in it, by what stands for them. */
  readonly #folded = new Map<string, string>();
  /** What the line was begun with: a paste may have made it a command that nobody typed. */
  #begunBy: "keys" | "paste" = "keys";
  #status: string | null = null;
  /** Where the reply goes on, in the row above the prompt; null when the next words begin a row. */
  #column: number | null = null;
  #isOpen = true;

  constructor({ input, output, clock, history, historySize, ...on }: ScreenOptions) {
    this.#output = output;
    this.#keyboard = new Keyboard({
      input,
      output,
      clock,
      onPaste: (text) => this.#paste(text),
      onNewLine: () => this.#lines.write(LINE_END),
      onKeys: (keys) => this.#keys(keys),
    });
    this.#lines = createInterface({
      input: this.#keyboard,
      output,
      terminal: true,
      prompt: PROMPT,
      history: [...history],
      historySize,
      removeHistoryDuplicates: true,
    });
    this.#lines.on("history", (entered) => {
      const { line } = this.#entered(entered[0] ?? "");
      if (line === null || !on.remembers(line)) entered.shift();
    });
    this.#lines.on("line", (line) => {
      this.#column = null;
      const entered = this.#entered(line);
      this.#begin();
      on.onEntered(entered);
      if (this.#isOpen) this.#lines.prompt();
    });
    this.#lines.on("SIGINT", () => on.onInterrupt(this.#lines.line));
    this.#lines.on("close", () => {
      this.#isOpen = false;
      this.#keyboard.close();
      output.write("\n");
      on.onLeave();
    });
    // A terminal of another width has wrapped its rows anew.
    output.on("resize", () => {
      this.#column = null;
    });
  }

  prompt(): void {
    this.#lines.prompt();
  }

  show(shown: readonly Shown[]): void {
    for (const one of shown) this.#showOne(one);
  }

  /** A row of its own, for what only accompanies the conversation. */
  aside(text: string): void {
    this.#line(this.#dim(printable(text)));
  }

  /** A quiet row between what is shown and the line that is typed; null takes it away. */
  status(text: string | null): void {
    if (text === this.#status || !this.#isOpen) return;
    this.#status = text;
    this.#above(() => {
      const row = text === null ? "" : `${this.#dim(cutTo(printable(text), this.#output.columns - 1))}\n`;
      this.#lines.setPrompt(row + PROMPT);
    });
  }

  /** Throws away what is typed so far. */
  clearLine(): void {
    this.#lines.write(null, { ctrl: true, name: "e" });
    this.#lines.write(null, { ctrl: true, name: "u" });
  }

  /** The terminal is given back; what is shown from here on is plain rows. */
  close(): void {
    if (this.#isOpen) this.#lines.close();
  }

  #paste(text: string): void {
    if (!COMMAND_NAMED.test(this.#lines.line.slice(0, this.#lines.cursor))) this.#begunBy = "paste";
    this.#lines.write(this.#shownAs(text));
  }

  #shownAs(text: string): string {
    const count = text.split("\n").length;
    const isPlain = !/[↵\u2028\u2029]/.test(text);
    if (isPlain && count <= UNFOLDED.lines && text.length <= UNFOLDED.characters)
      return text.replaceAll("\n", LINE_END);
    const fold = `[pasted ${this.#folded.size + 1}: ${count > 1 ? `${count} lines` : `${text.length} characters`}]`;
    this.#folded.set(fold, text);
    return fold;
  }

  #keys(keys: string): void {
    if (this.#lines.line === "") this.#begin();
    // The row would stay above the line that is entered.
    if (keys.includes("\r")) this.status(null);
  }

  #begin(): void {
    this.#folded.clear();
    this.#begunBy = "keys";
  }

  #entered(line: string): Entered {
    let text = line.replaceAll(LINE_END, "\n");
    for (const [fold, whole] of this.#folded) text = text.replace(fold, () => whole);
    const as = this.#begunBy === "keys" && !text.includes("\n") ? "line" : "words";
    const isShownWhole = text === line.replaceAll(LINE_END, "\n");
    // Called back, a pasted command would be one that was typed.
    return { text, as, line: isShownWhole && (as === "line" || !text.trimStart().startsWith("/")) ? line : null };
  }

  #showOne(shown: Shown): void {
    switch (shown.kind) {
      case "said": {
        const author = shown.author === null ? "" : `${printable(shown.author)}: `;
        this.#line(`${this.#dim(`[${printable(shown.door)}]`)} ${author}${readable(shown.text)}`);
        return;
      }
      case "reply":
        this.#column = null;
        if (shown.door !== null) this.#write(`[${printable(shown.door)}] `, (text) => this.#dim(text));
        return;
      case "text":
        this.#write(readable(shown.text));
        return;
      case "end":
        this.#column = null;
        return;
      case "notice":
        this.aside(`[${shown.text}]`);
        return;
      case "answer":
        this.aside(shown.text);
        return;
      case "question":
        for (const line of questionLines(shown.question)) this.aside(line);
        return;
    }
  }

  #line(text: string): void {
    this.#column = null;
    this.#above(() => this.#output.write(`${text}\n`));
  }

  #write(text: string, style = (plain: string): string => plain): void {
    const columns = this.#output.columns;
    this.#above(() => {
      const isOpenRow = this.#column !== null && this.#column < columns;
      if (isOpenRow) {
        moveCursor(this.#output, 0, -1);
        cursorTo(this.#output, this.#column!);
      }
      this.#output.write(style(text));
      const column = columnAfter(isOpenRow ? this.#column! : 0, text, columns);
      if (column > 0) this.#output.write("\n");
      this.#column = column === 0 ? null : column;
    });
  }

  /** Draws from the prompt's first row on, and the prompt again below it, with what is typed and the cursor where it was. */
  #above(draw: () => void): void {
    if (!this.#isOpen) {
      draw();
      return;
    }
    const { rows } = this.#lines.getCursorPos();
    moveCursor(this.#output, 0, -rows);
    cursorTo(this.#output, 0);
    clearScreenDown(this.#output);
    draw();
    // COMPAT: readline goes up by what it remembers of its rows, which is wrong after a paste that wrapped (Node 24), and is 0 here.
    Object.assign(this.#lines, { prevRows: 0 });
    this.#lines.prompt(true);
  }

  #dim(text: string): string {
    return styleText("dim", text, { stream: this.#output });
  }
}

export function questionLines({ title, options }: Question): string[] {
  return [
    `[${title}]`,
    ...options.map((option, index) => `  ${index + 1} ${option.label}`),
    `[Answer with a number from 1 to ${options.length}.]`,
  ];
}

/** As many characters as fit, by their width. */
export function cutTo(text: string, columns: number): string {
  let cut = "";
  for (const { segment } of graphemes.segment(text)) {
    if (stringWidth(cut + segment) > columns) return cut;
    cut += segment;
  }
  return cut;
}

export function readable(text: string): string {
  return printable(text.replaceAll("\r\n", "\n"));
}

const graphemes = new Intl.Segmenter();

/** The column after writing `text` from `column`; `columns` itself means that the row is full and the next character wraps. */
export function columnAfter(column: number, text: string, columns: number): number {
  let at = column;
  // A lone half of a character is shown as U+FFFD, and is dear to segment.
  for (const { segment } of graphemes.segment(text.toWellFormed())) {
    if (segment === "\n") at = 0;
    else if (segment === "\t") at = Math.min(columns - 1, (Math.floor(at / TAB) + 1) * TAB);
    else {
      const width = stringWidth(segment);
      at = at + width > columns ? width : at + width;
    }
  }
  return at;
}
