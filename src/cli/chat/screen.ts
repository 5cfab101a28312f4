import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from "node:readline";
import type { ReadStream, WriteStream } from "node:tty";
import { styleText } from "node:util";
import stringWidth from "string-width";
import type { Question, Shown } from "../../channel/console/transcript.ts";
import { printable } from "../output.ts";

const PROMPT = "> ";
const TAB = 8;

export interface ScreenOptions {
  readonly input: ReadStream;
  readonly output: WriteStream;
  /** Newest first. */
  readonly history: readonly string[];
  readonly historySize: number;
  /** Whether a line that was just entered is one to go back to. */
  remembers(line: string): boolean;
  onLine(line: string): void;
  /** Ctrl-C; `line` is what is typed so far. */
  onInterrupt(line: string): void;
  /** Ctrl-D, or the terminal is gone. */
  onLeave(): void;
}

/**
 * Screen: a terminal whose last rows are the line that is being typed; everything else is written above it, a streamed reply too. The
 * row on which a reply goes on is found again by the column where it was left, so nothing is ever drawn twice.
 */
export class Screen {
  readonly #output: WriteStream;
  readonly #lines: Interface;
  /** Where the reply goes on, in the row above the prompt; null when the next words begin a row. */
  #column: number | null = null;
  #isOpen = true;

  constructor({ input, output, history, historySize, remembers, onLine, onInterrupt, onLeave }: ScreenOptions) {
    this.#output = output;
    this.#lines = createInterface({
      input,
      output,
      terminal: true,
      prompt: PROMPT,
      history: [...history],
      historySize,
      removeHistoryDuplicates: true,
    });
    this.#lines.on("history", (entered) => {
      if (!remembers(entered[0] ?? "")) entered.shift();
    });
    this.#lines.on("line", (line) => {
      this.#column = null;
      onLine(line);
      if (this.#isOpen) this.#lines.prompt();
    });
    this.#lines.on("SIGINT", () => onInterrupt(this.#lines.line));
    this.#lines.on("close", () => {
      this.#isOpen = false;
      output.write("\n");
      onLeave();
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

  /** Throws away what is typed so far. */
  clearLine(): void {
    this.#lines.write(null, { ctrl: true, name: "e" });
    this.#lines.write(null, { ctrl: true, name: "u" });
  }

  /** The terminal is given back; what is shown from here on is plain rows. */
  close(): void {
    if (this.#isOpen) this.#lines.close();
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

export function readable(text: string): string {
  return printable(text.replaceAll("\r\n", "\n"));
}

const graphemes = new Intl.Segmenter();

/** The column after writing `text` from `column`; `columns` itself means that the row is full and the next character wraps. */
export function columnAfter(column: number, text: string, columns: number): number {
  let at = column;
  for (const { segment } of graphemes.segment(text)) {
    if (segment === "\n") at = 0;
    else if (segment === "\t") at = Math.min(columns - 1, (Math.floor(at / TAB) + 1) * TAB);
    else {
      const width = stringWidth(segment);
      at = at + width > columns ? width : at + width;
    }
  }
  return at;
}
