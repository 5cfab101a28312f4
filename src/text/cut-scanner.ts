import { type Fence, isFence, readFenceLine } from "./fence.ts";
import { isSpace, LineReader, NEWLINE, RANK, type Rank } from "./line-reader.ts";
import { type Limit, lengthIn, type Unit, unitsOf, widthOf } from "./unit.ts";

/** A fence with what closes it at the end of a part, and opens it again in the next. */
export interface OpenFence extends Fence {
  readonly reopen: string;
  readonly reclose: string;
}

/** Where a part could end. */
export interface Spot {
  readonly at: number;
  /** The fence that is open there. */
  readonly fence: OpenFence | null;
}
export interface FurthestSpot extends Spot {
  /** From where on its fence is what it is there. */
  readonly since: number;
}
export interface RankedSpot extends Spot {
  readonly rank: Rank;
  /** The length of the part's text. */
  readonly length: number;
}
/** Reads on from the start of a part as far as the limit allows, and notes where it could end. */
export class CutScanner {
  readonly spots: RankedSpot[] = [];
  /** The last place at all that is within the limit, outside the lines of fences. */
  furthest: FurthestSpot;
  reachedEnd: Spot | null = null;
  readonly #text: string;
  readonly #start: number;
  readonly #limit: number;
  readonly #unit: Unit;
  /** Of the added opening and the text so far. */
  #length: number;
  readonly #openLength: number;
  #at: number;
  #fence: OpenFence | null;
  #since: number;
  #closeLength: number;
  /** Whether there was anything but white space: a part of nothing else is not made where it can be helped. */
  #hasWords = false;

  constructor(text: string, from: Spot, { limit, unit }: Limit) {
    this.#text = text;
    this.#start = from.at;
    this.#limit = limit;
    this.#unit = unit;
    this.#at = from.at;
    this.#fence = from.fence;
    this.#openLength = this.#lengthOf(from.fence?.reopen ?? "");
    this.#closeLength = this.#lengthOf(from.fence?.reclose ?? "");
    this.#length = this.#openLength;
    this.#since = from.at;
    this.furthest = { ...from, since: from.at };
  }

  run(): void {
    const text = this.#text;
    while (this.#at < text.length && this.#length <= this.#limit) {
      const isLineStart = this.#at === 0 || text.charCodeAt(this.#at - 1) === NEWLINE;
      if (!isLineStart || !this.#readFence()) this.#readLine();
    }
    if (this.#at === text.length && this.#hasRoom) this.reachedEnd = { at: this.#at, fence: this.#fence };
  }

  get #hasRoom(): boolean {
    return this.#length + this.#closeLength <= this.#limit;
  }

  /** Takes a line that opens or closes a fence as a whole, or what marks it where no part has room for it; false for any other. */
  #readFence(): boolean {
    let line = readFenceLine(this.#text, this.#at, this.#fence);
    if (line.kind === "leaves") {
      this.#enter(null);
      this.#edge();
      this.#reach();
      line = line.next;
    }
    if (!isFence(line)) return false;
    // What fills half a part is no fence that anybody would draw.
    if (2 * this.#lengthOf(this.#text.slice(this.#at, line.head)) > this.#limit) return false;
    if (line.kind === "opens") this.#open(line.fence, line);
    else this.#close(line);
    return true;
  }

  #open(fence: Fence, { head, end }: { readonly head: number; readonly end: number }): void {
    const open = this.#reopenable(fence);
    const length = this.#lengthOf(this.#text.slice(this.#at, end));
    const isWhole = length + this.#lengthOf(open.reclose) <= this.#limit;
    this.#edge();
    this.#enter(open);
    this.#take(isWhole ? end : head);
  }

  #close({ head, end }: { readonly head: number; readonly end: number }): void {
    const length = this.#lengthOf(this.#text.slice(this.#at, end));
    const isWhole = this.#lengthOf(this.#fence?.reopen ?? "") + length <= this.#limit;
    // No part shall begin with the end of a fence.
    if (this.spots.at(-1)?.at === this.#at) this.spots.pop();
    this.#enter(null);
    this.#take(isWhole ? end : head);
    if (isWhole) this.#note(RANK.paragraph);
  }

  /** Here a block ends or begins. */
  #edge(): void {
    if (this.spots.at(-1)?.at === this.#at) this.spots.pop();
    this.#note(RANK.paragraph);
  }

  #readLine(): void {
    const text = this.#text;
    const line = new LineReader(this.#fence !== null);
    while (this.#at < text.length) {
      const code = text.codePointAt(this.#at)!;
      const rank = line.rankBefore(code);
      if (rank !== null) this.#note(rank);
      this.#advance(this.#at + unitsOf(code), widthOf(code, this.#unit));
      if (this.#length > this.#limit) return;
      this.#hasWords ||= !isSpace(code);
      this.#reach();
      if (code === NEWLINE) break;
    }
    if (text.charCodeAt(this.#at - 1) === NEWLINE) this.#note(line.rankOfEnd);
  }

  #note(rank: Rank): void {
    if (!this.#hasWords || !this.#hasRoom || this.#at === this.#start) return;
    this.spots.push({ at: this.#at, fence: this.#fence, rank, length: this.#length - this.#openLength });
  }

  #reach(): void {
    if (this.#hasRoom) this.furthest = { at: this.#at, fence: this.#fence, since: this.#since };
  }

  #take(end: number): void {
    this.#advance(end, this.#lengthOf(this.#text.slice(this.#at, end)));
    this.#since = end;
    this.#reach();
  }

  #advance(at: number, length: number): void {
    this.#at = at;
    this.#length += length;
  }

  #enter(fence: OpenFence | null): void {
    this.#fence = fence;
    this.#since = this.#at;
    this.#closeLength = this.#lengthOf(fence?.reclose ?? "");
    this.#hasWords = true;
  }

  #reopenable(fence: Fence): OpenFence {
    const bare = fence.prefix + fence.mark.repeat(fence.run);
    const reclose = `\n${bare}`;
    for (const reopen of [`${bare}${fence.info}\n`, `${bare}\n`]) {
      const length = this.#lengthOf(reopen) + this.#lengthOf(reclose);
      if (length <= (this.#limit * 3) / 4) return { ...fence, reopen, reclose };
    }
    return { ...fence, reopen: "", reclose: "" };
  }

  #lengthOf(text: string): number {
    return lengthIn(text, this.#unit);
  }
}
