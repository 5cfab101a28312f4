import { oneLine } from "../../text/untrusted.ts";
import { type CommandAnswer, type CommandContext, type OpenQuestion, onlySays } from "./command.ts";

/** H12: answers the agent's oldest open question with one of its options. */
export function allow({ args, questions }: CommandContext): CommandAnswer {
  const question = questions.at(0);
  if (question === undefined) return nothing();
  const { options } = question;
  const chosen = args === "" ? options.find(({ kind }) => kind.startsWith("allow")) : options[Number(args) - 1];
  if (chosen === undefined) return onlySays(`There is no such answer.\n${asked(question)}`);
  return answer(questions, chosen.id, chosen.label);
}

export function deny({ questions }: CommandContext): CommandAnswer {
  return questions.length === 0 ? nothing() : answer(questions, null, "denied");
}

function nothing(): CommandAnswer {
  return onlySays("The agent asks for nothing here now.");
}

/** Answers the oldest question. Where there are more, the reply names it and the next one. */
function answer([question, next]: readonly OpenQuestion[], optionId: string | null, label: string): CommandAnswer {
  const { turnId, id, title } = question!;
  const which = next === undefined ? {} : { title: oneLine(title), next: oneLine(next.title) };
  return {
    effect: { kind: "answer", turnId, id, optionId },
    reply: { code: "permission_answered", args: { label: oneLine(label), ...which } },
  };
}

function asked({ title, options }: OpenQuestion): string {
  return [oneLine(title), ...options.map(({ label }, n) => `  ${n + 1}  ${oneLine(label)}`)].join("\n");
}

/** The command that a plain "yes", "no" or number stands for, at a door without buttons; null for other words. */
export function plainAnswer(text: string): string | null {
  const word = text.trim().toLocaleLowerCase();
  if (/^[1-9]$/.test(word)) return `/allow ${word}`;
  if (["yes", "y", "ok", "ja", "oui", "si", "sí", "да", "是", "好", "可以", "はい"].includes(word)) return "/allow";
  if (["no", "n", "nein", "non", "нет", "不", "否", "不行", "いいえ"].includes(word)) return "/deny";
  return null;
}
