import { randomUUID } from "node:crypto";
import type { MessageReport, Posted, Question, Shown, Transcript } from "../../channel/console/transcript.ts";
import { asTertuliaError } from "../../errors.ts";
import type { SayKind } from "../../intake/local-doors.ts";
import { cleanText } from "../../message/source.ts";
import type { BindingRow, ConversationRow, EntryRow } from "../../store/rows.ts";
import { type Client, isAway, pause, type StreamItem } from "../client.ts";

const RETRY_MS = 1_000;
const MOST_TRIES = 3;
const MOST_ENTRIES = 200;
/** Of a session that the conversation speaks in since the gap. */
const FIRST_LOOK = 20;

export interface AttachmentOptions {
  readonly client: Client;
  readonly transcript: Transcript;
  /** The door's own key: where its words go. */
  readonly door: string;
  /** The conversation behind the door, whose events are heard. */
  readonly key: string;
  readonly signal: AbortSignal;
  readonly onShown: (shown: readonly Shown[]) => void;
  /** Everything as it is heard, before it is shown. */
  readonly onHeard?: (item: StreamItem) => void;
  readonly onSent?: (posted: Posted) => void;
  /** After something was sent or heard. */
  readonly onNews?: () => void;
}

/** Where a conversation speaks, and what is there. */
export interface CurrentSession {
  readonly sessionId: string | null;
  readonly entries: readonly EntryRow[];
}

/**
 * Attachment: a terminal at its conversation (H6). What is said goes out in order, each message exactly once: over an outage it waits,
 * and a message whose answer got lost is sent again under its own key (T3). After an outage it asks what it has missed.
 */
export class Attachment {
  readonly #options: AttachmentOptions;
  readonly #opened = Promise.withResolvers<void>();
  #key: string;
  /** The stream of the conversation that is followed; aborted when another one is to be. */
  #following = new AbortController();
  /** attaching → open; open → cut (the gateway went away) | moved (another conversation is followed) → open. */
  #state: "attaching" | "open" | "cut" | "moved" = "attaching";
  #reopened = Promise.withResolvers<void>();
  #news = Promise.withResolvers<void>();
  #sending: Promise<unknown> = Promise.resolve();
  #unsent = 0;
  #inFlight: Promise<unknown> = Promise.resolve();
  #session: { readonly id: string | null; readonly throughSeq: number } = { id: null, throughSeq: 0 };

  constructor(options: AttachmentOptions) {
    this.#options = options;
    this.#key = options.key;
    options.signal.addEventListener("abort", () => this.#tell(), { once: true });
  }

  /** The gateway went away and is not back yet. */
  get isCut(): boolean {
    return this.#state === "cut";
  }

  /** Messages that are not with the gateway yet. */
  get unsent(): number {
    return this.#unsent;
  }

  /** The session this conversation speaks in, and its last entries; what was before is not told as news later. */
  async look(limit: number): Promise<CurrentSession> {
    const sessionId = await this.#currentSession();
    if (sessionId === null) return { sessionId, entries: [] };
    const entries = await this.#entries(sessionId, `limit=${limit}`);
    this.#session = { id: sessionId, throughSeq: entries.at(-1)?.seq ?? 0 };
    return { sessionId, entries };
  }

  /** Hears until the signal aborts. Throws what the gateway refuses. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    try {
      while (!signal.aborted) await this.#follow();
    } catch (cause) {
      if (!signal.aborted) throw cause;
    }
  }

  async #follow(): Promise<void> {
    const { client, signal } = this.#options;
    this.#following = new AbortController();
    for await (const item of client.events(this.#key, AbortSignal.any([signal, this.#following.signal]))) {
      // Whose words an event speaks of is known when the answer to ours is in.
      await this.#inFlight;
      await this.#take(item);
      this.#tell();
    }
  }

  /** S7: only a line can be a command. Resolves when it is durable (T2). Rejects with what it was refused for. */
  send(text: string, as: SayKind = "line"): Promise<Posted> {
    this.#unsent++;
    const sent = this.#sending.then(() => this.#sendOne(cleanText(text), as)).finally(() => this.#unsent--);
    this.#sending = Promise.allSettled([sent]);
    return sent;
  }

  /** Resolves when everything that was to be sent was sent or refused. */
  async sent(): Promise<void> {
    await this.#sending;
  }

  /** Resolves when no answer to words of this terminal is outstanding, or its agent asks something. */
  async settled(): Promise<"answered" | "asked"> {
    const { transcript, signal } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      if (transcript.ownQuestion !== null) return "asked";
      if (transcript.waiting.length === 0) return "answered";
      await this.#news.promise;
    }
  }

  /** Null denies. */
  async answer(question: Question, optionId: string | null): Promise<void> {
    const { client, transcript } = this.#options;
    transcript.dropQuestion(question);
    await client.post("/api/messages/permission", { turn: question.turnId, id: question.id, option: optionId });
  }

  async #sendOne(text: string, as: SayKind): Promise<Posted> {
    const { signal, onShown } = this.#options;
    const idempotencyKey = randomUUID();
    await this.#opened.promise;
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const posting = this.#post({ text, as }, idempotencyKey);
      this.#inFlight = Promise.allSettled([posting]);
      try {
        const posted = await posting;
        // Its turn may have ended before anybody listened.
        if (attempt > 1) await this.#askAfter([posted.message]);
        return posted;
      } catch (cause) {
        if (signal.aborted || !isAway(cause)) throw cause;
        if (attempt === 1) onShown([notice("Not sent yet: it goes out when the gateway is back.")]);
        await Promise.race([this.#reopened.promise, pause(RETRY_MS, signal)]);
      }
    }
  }

  async #post(said: { text: string; as: SayKind }, idempotencyKey: string): Promise<Posted> {
    const { client, door, signal, transcript, onShown, onSent, onNews } = this.#options;
    const path = `/api/conversations/${encodeURIComponent(door)}/messages`;
    const posted = await client.post<Posted>(path, said, { idempotencyKey, signal });
    onSent?.(posted);
    onShown(transcript.sent(posted));
    onNews?.();
    if (posted.conversation !== this.#key) {
      this.#key = posted.conversation;
      this.#state = "moved";
      this.#following.abort();
    }
    return posted;
  }

  async #take(item: StreamItem): Promise<void> {
    const { transcript, onShown, onHeard } = this.#options;
    onHeard?.(item);
    switch (item.kind) {
      case "event":
        onShown(transcript.take(item.event));
        return;
      case "cut":
        this.#state = "cut";
        this.#reopened = Promise.withResolvers();
        onShown([
          ...transcript.cut(),
          notice("The gateway went away; waiting for it to come back. `tertulia start` starts it, Ctrl-D leaves."),
        ]);
        return;
      case "open": {
        const before = this.#state;
        this.#state = "open";
        if (before === "cut") onShown([notice(`The gateway is back, at ${item.address}.`)]);
        if (before !== "attaching") await this.#catchUp();
        this.#opened.resolve();
        this.#reopened.resolve();
      }
    }
  }

  async #catchUp(): Promise<void> {
    for (let attempt = 1; attempt <= MOST_TRIES; attempt++) {
      try {
        await this.#askAfter(this.#options.transcript.waiting);
        await this.#readOn();
        return;
      } catch (cause) {
        if (!isAway(cause)) throw cause;
        await pause(RETRY_MS, this.#options.signal);
      }
    }
    // It is gone again: the next time it is back, all of this is asked again.
  }

  /** What the session holds beyond what was told, of a new session only the end. */
  async #readOn(): Promise<void> {
    const { transcript, onShown } = this.#options;
    const id = await this.#currentSession();
    if (id === null) return;
    const after = id === this.#session.id ? this.#session.throughSeq : 0;
    const entries = await this.#entries(id, after > 0 ? `after=${after}&limit=${MOST_ENTRIES}` : `limit=${FIRST_LOOK}`);
    this.#session = { id, throughSeq: entries.at(-1)?.seq ?? after };
    onShown(transcript.entries(entries));
  }

  async #askAfter(messages: readonly number[]): Promise<void> {
    const { client, transcript, onShown, signal } = this.#options;
    for (const message of messages) {
      try {
        onShown(transcript.report(await client.get<MessageReport>(`/api/messages/${message}`, { signal })));
      } catch (cause) {
        if (asTertuliaError(cause).code !== "message_unknown") throw cause;
        onShown(transcript.lost(message));
      }
    }
    this.#tell();
  }

  async #currentSession(): Promise<string | null> {
    const { client, signal } = this.#options;
    try {
      const path = `/api/conversations/${encodeURIComponent(this.#key)}`;
      const { conversation, bindings } = await client.get<{ conversation: ConversationRow; bindings: BindingRow[] }>(
        path,
        { signal },
      );
      const bound = bindings.find((binding) => binding.expiresAt === null || binding.expiresAt > Date.now());
      return bound?.sessionId ?? conversation.currentSession;
    } catch (cause) {
      if (asTertuliaError(cause).code === "conversation_unknown") return null;
      throw cause;
    }
  }

  async #entries(sessionId: string, query: string): Promise<EntryRow[]> {
    const { client, signal } = this.#options;
    const path = `/api/sessions/${encodeURIComponent(sessionId)}/messages?${query}`;
    return (await client.get<{ messages: EntryRow[] }>(path, { signal })).messages;
  }

  #tell(): void {
    this.#options.onNews?.();
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

function notice(text: string): Shown {
  return { kind: "notice", text };
}
