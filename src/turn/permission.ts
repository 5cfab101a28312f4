import type { Person } from "../conversation/person.ts";
import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import type { TurnEvent } from "../runtime/runtime.ts";
import type { Turn } from "../store/turns.ts";
import { oneLine } from "../text/untrusted.ts";
import { describeSpan } from "../util/span.ts";

export type PermissionQuestion = Extract<TurnEvent, { type: "permission" }>;

/** The open permission questions of one running turn, the oldest first. */
export class OpenQuestions {
  readonly #open = new Map<string, PermissionQuestion>();

  get all(): readonly PermissionQuestion[] {
    return [...this.#open.values()];
  }

  has(id: string): boolean {
    return this.#open.has(id);
  }

  add(question: PermissionQuestion): void {
    this.#open.set(question.id, question);
  }

  /** Answers an open question; null denies it. Throws `request_invalid` for a question that is not open. */
  answer(id: string, optionId: string | null): void {
    const question = this.#open.get(id);
    if (question === undefined) throw new TertuliaError("request_invalid", "This question is not open any more.");
    if (optionId !== null && !question.options.some((option) => option.id === optionId)) {
      throw new TertuliaError("request_invalid", `The question has no option ${JSON.stringify(optionId)}.`, {
        remedy: `Choose one of ${question.options.map((option) => option.id).join(", ")}.`,
      });
    }
    this.#open.delete(id);
    question.answer(optionId);
  }

  /** An answer that comes too late changes nothing. */
  answerIfOpen(id: string, optionId: string | null): void {
    if (this.has(id)) this.answer(id, optionId);
  }

  deny(id: string): void {
    this.answerIfOpen(id, null);
  }

  denyAll(): void {
    for (const { id } of this.all) this.deny(id);
  }
}

/** H12: the owner may answer a turn's questions, and the turn's own person where they are asked. */
export function mayAnswer({ id, role }: Person, turn: Turn): boolean {
  return role === "owner" || (turn.authority.personId === id && isAskedAtDoor(turn));
}

/** Whether the question is shown at the turn's door; elsewhere it is for the owner, at any door where they watch (H12). */
export function isAskedAtDoor(turn: Turn): boolean {
  return turn.target.door === "pull" || isAskedInChat(turn);
}

/** H12: at a push door a question is asked only where whoever reads it may answer it: the owner, or one person alone. */
export function isAskedInChat({ target, authority, audience }: Turn): boolean {
  if (target.door !== "push") return false;
  return authority.role === "owner" || (audience.kind === "person" && audience.personId === authority.personId);
}

export function permissionNotice({ title, options }: PermissionQuestion, ms: number): Notice {
  const labels = options.map(({ label }) => oneLine(label)).join("\n");
  return { code: "permission", args: { title: oneLine(title), options: labels, span: describeSpan(ms) } };
}
