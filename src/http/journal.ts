/** An event as it is sent: made once, and the same bytes for whoever reads it. */
export interface Frame<Reader> {
  readonly seq: number;
  readonly bytes: Buffer;
  isFor(reader: Reader): boolean;
}

/**
 * Journal: the last events in their order, by their bytes and their number. Everybody reads it at a pace of his own; whoever is so far
 * behind that his next one is gone has lost some.
 */
export class Journal<Reader> {
  readonly #most: { readonly bytes: number; readonly frames: number };
  #frames: Frame<Reader>[] = [];
  #bytes = 0;
  #last = 0;

  constructor(most: { readonly bytes: number; readonly frames: number }) {
    this.#most = most;
  }

  /** Of the last one there was. */
  get last(): number {
    return this.#last;
  }

  /** Whether everything after this one is here. */
  reaches(seq: number): boolean {
    return seq <= this.#last && seq >= this.#last - this.#frames.length;
  }

  append(bytesOf: (seq: number) => Buffer, isFor: (reader: Reader) => boolean): void {
    const seq = ++this.#last;
    const bytes = bytesOf(seq);
    this.#frames.push({ seq, bytes, isFor });
    this.#bytes += bytes.length;
    // The newest stays, however long it is.
    while (this.#frames.length > 1 && (this.#bytes > this.#most.bytes || this.#frames.length > this.#most.frames))
      this.#bytes -= this.#frames.shift()!.bytes.length;
  }

  /** The one that follows; undefined where there is none yet. */
  after(seq: number): Frame<Reader> | undefined {
    return this.#frames[seq - (this.#last - this.#frames.length)];
  }

  /** Forgets what it holds, and goes on counting. */
  clear(): void {
    this.#frames = [];
    this.#bytes = 0;
  }
}
