import type { Source } from "./source.ts";

/** Who wrote a message: a person, one of our agents, a foreign bot, or the gateway itself. */
export type AuthorKind = "person" | "agent" | "bot" | "gateway";

export interface Author {
  readonly kind: AuthorKind;
  /** A person id, an agent's name, or the platform's user id. */
  readonly id: string;
  readonly name?: string;
}

/** A message as stored: once per place, numbered by the place's sequence. */
export interface Message {
  readonly id: number;
  readonly placeId: number;
  readonly placeSeq: number;
  readonly author: Author;
  /** The platform's own id of it. */
  readonly externalId?: string;
  readonly body: string;
  /** What its author's program would have the agent be: the system message of an OpenAI client. */
  readonly instructions?: string;
  /** Null for words of our own. */
  readonly source: Source | null;
  /** Epoch ms: the platform's time, then ours. */
  readonly saidAt: number;
  readonly admittedAt: number;
}

/** What became of one message for one conversation (T10). The last three variants are derived from the turn. */
export type Fate =
  | {
      readonly fate: "answered" | "recorded" | "failed" | "interrupted" | "withdrawn" | "refused";
      readonly reason?: string;
    }
  | { readonly fate: "waiting"; readonly position: number }
  | { readonly fate: "joined"; readonly turnId: number; readonly position: number }
  | { readonly fate: "running"; readonly turnId: number };
