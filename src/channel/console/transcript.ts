import type { GatewayEvent } from "../../events.ts";
import type { Author, Fate } from "../../message/message.ts";
import type { Target } from "../../message/target.ts";
import type { PermissionOption } from "../../runtime/runtime.ts";
import type { DeliveryRow, EntryRow } from "../../store/rows.ts";
import type { Turn } from "../../store/turns.ts";
import { renderNotice } from "../../text/render-notice.ts";

/** What a stream of events carries (docs/http.md): the gateway's events, and the words and questions of the turns among them. */
export type WireEvent =
  | GatewayEvent
  | { readonly name: "hello"; readonly payload: { readonly conversation: string | null } }
  | { readonly name: "keepalive"; readonly payload: object }
  | { readonly name: "turn:text"; readonly payload: { readonly turnId: number; readonly text: string } }
  | {
      readonly name: "turn:tool";
      readonly payload: {
        readonly turnId: number;
        readonly id: string;
        readonly title: string;
        readonly state: string;
      };
    }
  | { readonly name: "turn:permission"; readonly payload: Question };

export interface Question {
  readonly turnId: number;
  readonly id: string;
  readonly title: string;
  readonly options: readonly PermissionOption[];
}

/** What the gateway answers to words at a door. */
export interface Posted {
  readonly kind: "turn" | "command";
  readonly message: number;
  readonly conversation: string;
  readonly session: string | null;
  /** The turn that answers; of a command only when it has a first message. */
  readonly turn: number | null;
  /** A command's answer. */
  readonly reply?: string;
}

/** What became of a message, as the gateway tells it when asked (T10). */
export interface MessageReport {
  readonly message: { readonly id: number };
  readonly fates: readonly {
    readonly conversationKey: string;
    readonly sessionId: string | null;
    readonly turnId: number | null;
    readonly fate: Fate;
  }[];
  readonly answer: {
    readonly text: string;
    readonly silent: boolean;
    readonly state: Turn["state"];
    readonly reason: string | null;
    readonly notices: readonly string[];
  } | null;
}

/** What a terminal shows, in order. Texts are as they were written: escape them where they are drawn. */
export type Shown =
  /** Somebody's words at another door of this session, or at another terminal of this conversation. */
  | { readonly kind: "said"; readonly door: string; readonly author: string | null; readonly text: string }
  /** A reply begins; `door` says where, when it is not this one. */
  | { readonly kind: "reply"; readonly door: string | null }
  | { readonly kind: "text"; readonly text: string }
  /** The reply that began last is complete. */
  | { readonly kind: "end" }
  | { readonly kind: "notice"; readonly text: string }
  /** What a command of this terminal was answered with. */
  | { readonly kind: "answer"; readonly text: string }
  | { readonly kind: "question"; readonly question: Question };

/** Why there is no answer yet. */
export type Standing =
  /** Another turn of the session is before it. */
  | { readonly kind: "waiting"; readonly place: number }
  /** Its agent is got ready. */
  | { readonly kind: "warming" }
  | { readonly kind: "thinking" }
  | { readonly kind: "tool"; readonly title: string };

export interface TranscriptOptions {
  /** This door: its chat at the platform `console`. */
  readonly chatId: string;
  readonly personId: string;
  /** A door as people call it, by its conversation and by where a reply there goes. */
  readonly doorOf: (conversationKey: string, target: Target) => string;
  /** What another door of this same conversation is called. */
  readonly elsewhere: string;
}

export interface Answer {
  readonly text: string;
  readonly state: Turn["state"];
  readonly reason: string | null;
  readonly silent: boolean;
}

/** Of a turn whose reply is not shown to its end yet. */
interface OpenTurn {
  readonly id: number;
  /** Its prompt was written. */
  isBegun: boolean;
  /** Title of the tool that runs. */
  tool: string | null;
  /** Null: this door. */
  readonly door: string | null;
  readonly tools: Set<string>;
  text: string;
  shown: number;
  /** Whether the reply's beginning is on the screen. */
  isShown: boolean;
  ending: Answer | null;
}

/**
 * Transcript: from what a terminal hears to what it shows. It shows one reply at a time; what another turn says meanwhile is held
 * back until that one is complete. Whatever it is told twice (by an event, by a report after a gap, by the stored transcript) it shows
 * once.
 */
export class Transcript {
  readonly #options: TranscriptOptions;
  readonly #turns = new Map<number, OpenTurn>();
  /** Messages of this terminal whose answer is not complete yet, with their turns. */
  readonly #mine = new Map<number, number>();
  readonly #answers = new Map<number, Answer>();
  readonly #questions: Question[] = [];
  readonly #sentHere = new Set<number>();
  readonly #shownMessages = new Set<number>();
  readonly #shownTurns = new Set<number>();
  readonly #shownDeliveries = new Set<number>();
  /** Turns of a command's first message, which stands in the command. */
  readonly #commandTurns = new Set<number>();
  /** Turns whose notices came with a report. */
  readonly #reportedTurns = new Set<number>();
  #speaking: OpenTurn | null = null;

  constructor(options: TranscriptOptions) {
    this.#options = options;
  }

  /** Messages of this terminal whose answer is not complete yet. */
  get waiting(): readonly number[] {
    return [...this.#mine.keys()];
  }

  /** The oldest question that waits for an answer. */
  get question(): Question | null {
    return this.#questions[0] ?? null;
  }

  /** The oldest one that comes from words of this terminal. */
  get ownQuestion(): Question | null {
    const turns = [...this.#mine.values()];
    return this.#questions.find(({ turnId }) => turns.includes(turnId)) ?? null;
  }

  /** What goes on while this terminal waits for an answer; null where it waits for none, or is asked itself. */
  get standing(): Standing | null {
    const [own] = [...this.#mine.values()].sort((one, other) => one - other);
    if (own === undefined || this.ownQuestion !== null) return null;
    const turn = this.#turns.get(own);
    if (turn?.isBegun) return turn.tool === null ? { kind: "thinking" } : { kind: "tool", title: turn.tool };
    const before = [...this.#turns.values()].filter(
      ({ id, isBegun, ending }) => id !== own && isBegun && ending === null,
    );
    return before.length === 0 ? { kind: "warming" } : { kind: "waiting", place: before.length + 1 };
  }

  /** How the turn of words from this terminal ended; undefined while it is open. */
  answerOf(turnId: number): Answer | undefined {
    return this.#answers.get(turnId);
  }

  /** The question needs no answer from here any more. */
  dropQuestion({ turnId, id }: Question): void {
    const at = this.#questions.findIndex((question) => question.turnId === turnId && question.id === id);
    if (at >= 0) this.#questions.splice(at, 1);
  }

  /** Words of this terminal were taken in. Must be told before the events that follow from them. */
  sent(posted: Posted): readonly Shown[] {
    this.#shownMessages.add(posted.message);
    this.#sentHere.add(posted.message);
    if (posted.turn !== null && !this.#shownTurns.has(posted.turn)) {
      this.#mine.set(posted.message, posted.turn);
      if (posted.kind === "command") this.#commandTurns.add(posted.turn);
    }
    return posted.reply === undefined ? [] : [{ kind: "answer", text: posted.reply }];
  }

  take(event: WireEvent): readonly Shown[] {
    switch (event.name) {
      case "message:admitted": {
        const { messageId, author, text } = event.payload;
        // What an agent says from another session comes with its delivery.
        return author.kind === "agent" ? [] : this.#said(messageId, this.#options.elsewhere, author, text);
      }
      case "turn:begun":
        return this.#begun(event.payload);
      case "turn:text": {
        const turn = this.#turn(event.payload.turnId);
        turn.text += event.payload.text;
        return this.#flow();
      }
      case "turn:tool":
        return this.#tool(event.payload);
      case "turn:permission":
        this.#questions.push(event.payload);
        return [{ kind: "question", question: event.payload }];
      case "turn:settled":
        return this.#settled(event.payload);
      case "delivery:written":
        return this.#delivered(event.payload.delivery);
      case "binding:changed": {
        const { binding } = event.payload;
        if (binding === null) return [notice("This conversation speaks in its own session again.")];
        return [notice(`This conversation speaks in session ${binding.sessionId} now (${binding.kind}).`)];
      }
      default:
        return [];
    }
  }

  /** The events were cut: whoever spoke may never be heard to the end, and holds nobody up. */
  cut(): readonly Shown[] {
    const isOpen = this.#speaking?.isShown === true;
    for (const turn of this.#turns.values()) turn.isShown = false;
    this.#speaking = null;
    return isOpen ? [{ kind: "end" }] : [];
  }

  /** After a gap in the events: what became of a message of this terminal. */
  report({ message, fates, answer }: MessageReport): readonly Shown[] {
    const turnId = fates.find((candidate) => candidate.turnId !== null)?.turnId;
    if (!this.#mine.has(message.id) || turnId == null) return [];
    this.#mine.set(message.id, turnId);
    if (answer === null || this.#shownTurns.has(turnId)) return [];
    this.#reportedTurns.add(turnId);
    const shown = this.#end(turnId, [message.id], answer);
    return [...shown, ...answer.notices.map((line) => notice(withoutPartial(line, answer.text)))];
  }

  /** After a gap: the gateway does not know the message (its state was replaced meanwhile). */
  lost(messageId: number): readonly Shown[] {
    this.#mine.delete(messageId);
    return [notice("The gateway does not know the last message any more: send it again.")];
  }

  /** After a gap: what the session holds beyond what was heard. */
  entries(rows: readonly EntryRow[]): readonly Shown[] {
    return rows.flatMap((row) => this.#entry(row));
  }

  #entry({ role, turnId, messageId, platform, author, text, mark }: EntryRow): readonly Shown[] {
    const isHere = platform === null || platform === "console";
    if (role === "user")
      return messageId === null ? [] : this.#said(messageId, isHere ? this.#options.elsewhere : platform, author, text);
    if (turnId !== null && this.#shownTurns.has(turnId)) return [];
    if (turnId !== null && this.#turns.has(turnId)) {
      const isWhole = mark === null || mark === "undone";
      const state = isWhole ? "answered" : mark === "failed" ? "failed" : "interrupted";
      return this.#end(turnId, [], { text, state, reason: mark, silent: false });
    }
    if (turnId !== null) this.#shownTurns.add(turnId);
    if (messageId !== null && this.#shownMessages.has(messageId)) return [];
    if (messageId !== null) this.#shownMessages.add(messageId);
    const marks = mark === null ? [] : [notice(role === "mark" && text !== "" ? `${mark}: ${text}` : mark)];
    if (role === "mark") return marks;
    return [{ kind: "reply", door: isHere ? null : platform }, { kind: "text", text }, { kind: "end" }, ...marks];
  }

  #begun({ turn, messages, conversationKey }: Extract<WireEvent, { name: "turn:begun" }>["payload"]): readonly Shown[] {
    const begun = this.#turn(turn.id, this.#doorOf(conversationKey, turn.target));
    const { door } = begun;
    begun.isBegun = true;
    if (this.#commandTurns.has(turn.id)) return [];
    const where = door ?? this.#options.elsewhere;
    return messages.flatMap((message) => this.#said(message.id, where, message.author, message.body));
  }

  #said(messageId: number, door: string, author: Author | null, text: string): readonly Shown[] {
    if (this.#shownMessages.has(messageId)) return [];
    this.#shownMessages.add(messageId);
    const isSelf = author === null || (author.kind === "person" && author.id === this.#options.personId);
    return [{ kind: "said", door, author: isSelf ? null : (author.name ?? author.id), text }];
  }

  #tool({ turnId, id, title, state }: Extract<WireEvent, { name: "turn:tool" }>["payload"]): readonly Shown[] {
    const turn = this.#turn(turnId);
    const { tools } = turn;
    turn.tool = state === "running" ? title : null;
    if (state === "failed") return [notice(`tool failed: ${title}`)];
    if (tools.has(id)) return [];
    tools.add(id);
    return [notice(`tool: ${title}`)];
  }

  #settled(payload: Extract<WireEvent, { name: "turn:settled" }>["payload"]): readonly Shown[] {
    const { turn, text, silent, messageIds, conversationKey } = payload;
    if (this.#shownTurns.has(turn.id)) return [];
    this.#turn(turn.id, this.#doorOf(conversationKey, turn.target));
    return this.#end(turn.id, messageIds, { text, state: turn.state, reason: turn.reason, silent });
  }

  /** The words that were not heard are shown too; where what was heard is not what was kept, all of it is shown. */
  #end(turnId: number, messageIds: readonly number[], ending: Answer): readonly Shown[] {
    const turn = this.#turn(turnId);
    const { text } = ending;
    turn.ending = ending;
    if (text.startsWith(turn.text)) {
      turn.text = text;
    } else if (ending.state === "answered" && text !== "") {
      turn.text += `\n${text}`;
    }
    for (const question of this.#questions.filter((open) => open.turnId === turnId)) this.dropQuestion(question);
    for (const [message, itsTurn] of this.#mine) {
      if (itsTurn !== turnId && !messageIds.includes(message)) continue;
      this.#mine.delete(message);
      this.#answers.set(turnId, ending);
    }
    this.#shownTurns.add(turnId);
    return this.#flow();
  }

  /** Notices for this door. What had been said stands here already. */
  #delivered({ id, kind, body, target, turnId, messageId }: DeliveryRow): readonly Shown[] {
    if (!this.#isHere(target) || this.#shownDeliveries.has(id)) return [];
    this.#shownDeliveries.add(id);
    if (kind === "send" && messageId !== null && !this.#shownMessages.has(messageId)) {
      this.#shownMessages.add(messageId);
      const text = typeof body === "string" ? body : renderNotice(body);
      return [{ kind: "reply", door: null }, { kind: "text", text }, { kind: "end" }];
    }
    if (kind !== "notice" || typeof body === "string") return [];
    // Whoever's words were refused, or were a command, was told in the answer to his request.
    if (body.code === "busy" || body.code === "queue_full" || body.code === "rate_limited") return [];
    if (messageId !== null && this.#sentHere.has(messageId)) return [];
    if (turnId !== null && this.#reportedTurns.has(turnId)) return [];
    const text = renderNotice(body.code === "interrupted" ? { ...body, args: { ...body.args, partial: "" } } : body);
    return [notice(text)];
  }

  #doorOf(conversationKey: string, target: Target): string | null {
    return this.#isHere(target) ? null : this.#options.doorOf(conversationKey, target);
  }

  #isHere(target: Target): boolean {
    return target.platform === "console" && target.chatId === this.#options.chatId;
  }

  #turn(id: number, door: string | null = null): OpenTurn {
    const known = this.#turns.get(id);
    if (known !== undefined) return known;
    const turn: OpenTurn = {
      id,
      isBegun: false,
      tool: null,
      door,
      tools: new Set(),
      text: "",
      shown: 0,
      isShown: false,
      ending: null,
    };
    this.#turns.set(id, turn);
    return turn;
  }

  /** Shows what can be shown now: the rest of the reply that is on the screen, and then the next ones. */
  #flow(): readonly Shown[] {
    const shown: Shown[] = [];
    for (;;) {
      this.#speaking ??=
        [...this.#turns.values()].find((turn) => turn.text.length > turn.shown || turn.ending !== null) ?? null;
      const turn = this.#speaking;
      if (turn === null) return shown;
      shown.push(...wordsOf(turn));
      if (turn.ending === null) return shown;
      shown.push(...endOf(turn));
      this.#turns.delete(turn.id);
      this.#speaking = null;
    }
  }
}

function wordsOf(turn: OpenTurn): Shown[] {
  const end = turn.ending === null ? wholeCharacters(turn.text) : turn.text.length;
  const text = turn.text.slice(turn.shown, end);
  if (text === "") return [];
  const head: Shown[] = turn.isShown ? [] : [{ kind: "reply", door: turn.door }];
  turn.isShown = true;
  turn.shown = end;
  return [...head, { kind: "text", text }];
}

/** What a turn of this door did not come to is in its notice; of other doors it is said here. */
function endOf({ isShown, door, ending }: OpenTurn): Shown[] {
  const end: Shown[] = isShown ? [{ kind: "end" }] : [];
  if (ending?.silent) return [...end, notice(door === null ? "no reply" : `${door}: no reply`)];
  if (door === null || ending?.state === "answered") return end;
  return [...end, notice(`${door}: ${ending?.state}${ending?.reason == null ? "" : ` (${ending.reason})`}`)];
}

/** Half of a surrogate pair waits for the other half. */
function wholeCharacters(text: string): number {
  return /[\ud800-\udbff]$/.test(text) ? text.length - 1 : text.length;
}

/** A notice of an interruption repeats what had been said. */
function withoutPartial(line: string, partial: string): string {
  if (partial === "" || !line.startsWith(partial)) return line;
  return line
    .slice(partial.length)
    .trim()
    .replace(/^\((.*)\)$/s, "$1");
}

function notice(text: string): Shown {
  return { kind: "notice", text };
}
