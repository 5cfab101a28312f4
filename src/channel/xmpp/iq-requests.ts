import { randomUUID } from "node:crypto";
import type { Element } from "@xmpp/client";
import type { Clock } from "../../util/clock.ts";
import { bareOf } from "./jid.ts";

/** What a server answered instead of a result: RFC 6120, section 8.3. */
export class StanzaError extends Error {
  override readonly name = "StanzaError";
  readonly condition: string;
  readonly type: string;

  constructor(condition: string, type: string, text: string | null) {
    super(text ? `${condition}: ${text}` : condition);
    this.condition = condition;
    this.type = type;
  }

  static of(stanza: Element): StanzaError {
    const error = stanza.getChild("error");
    const condition = error?.getChildElements().find((child) => child.getName() !== "text");
    return new StanzaError(
      condition?.getName() ?? "undefined-condition",
      error?.attrs.type ?? "cancel",
      error?.getChildText("text") ?? null,
    );
  }
}

interface Question {
  readonly of: string;
  readonly resolve: (answer: Element) => void;
  readonly reject: (error: Error) => void;
}

/** IqRequests: questions and their answers. An answer counts when it comes from whom was asked. */
export class IqRequests {
  readonly #open = new Map<string, Question>();
  readonly #clock: Clock;
  readonly #own: string;

  constructor(clock: Clock, own: string) {
    this.#clock = clock;
    this.#own = own;
  }

  async ask(
    stanza: Element,
    options: {
      readonly send: (stanza: Element) => Promise<void>;
      readonly withinMs: number;
      readonly signal?: AbortSignal;
    },
  ): Promise<Element> {
    const { send, withinMs, signal } = options;
    const id = randomUUID();
    stanza.attrs.id = id;
    const { promise, resolve, reject } = Promise.withResolvers<Element>();
    // The answer may be here before the words are known to have left.
    promise.catch(() => undefined);
    const onAbort = (): void => reject(new Error("the session ended before the answer"));
    const cancel = this.#clock.after(withinMs, () => reject(new Error("the server does not answer")));
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    this.#open.set(id, { of: stanza.attrs.to ?? "", resolve, reject });
    try {
      await send(stanza);
      return await promise;
    } finally {
      cancel();
      signal?.removeEventListener("abort", onAbort);
      this.#open.delete(id);
    }
  }

  take(stanza: Element): void {
    const { id, type, from } = stanza.attrs;
    const question = this.#open.get(id ?? "");
    if (question === undefined || (type !== "result" && type !== "error")) return;
    const isAnswer =
      question.of === "" ? this.#isOwnServer(from) : from === question.of || bareOf(from ?? "") === question.of;
    if (!isAnswer) return;
    if (type === "error") question.reject(StanzaError.of(stanza));
    else question.resolve(stanza);
  }

  #isOwnServer(from: string | undefined): boolean {
    const domain = this.#own.slice(this.#own.indexOf("@") + 1);
    return from === undefined || bareOf(from) === this.#own || from === domain;
  }
}
