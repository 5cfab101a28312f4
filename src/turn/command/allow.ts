import { oneLine } from "../../text/untrusted.ts";
import { type Command, type CommandAnswer, type OpenQuestion, onlySays } from "./command.ts";

/** H12: answers what the agent asks leave for. Whether the speaker may is decided in `admit`. */
export const allow: Command = {
  name: "allow",
  aliases: [],
  summary: "/allow [n]     let the agent do what it asks leave for; n is the answer's number, otherwise once",
  async run(context) {
    const question = context.questions.at(0);
    if (question === undefined) return nothing();
    const { options } = question;
    const chosen =
      context.args === "" ? options.find(({ kind }) => kind.startsWith("allow")) : options[Number(context.args) - 1];
    if (chosen === undefined) return onlySays(`There is no such answer.\n${asked(question)}`);
    return answer(context.questions, chosen.id, chosen.label);
  },
};

export const deny: Command = {
  name: "deny",
  aliases: [],
  summary: "/deny          refuse what the agent asks leave for",
  async run(context) {
    return context.questions.length === 0 ? nothing() : answer(context.questions, null, "denied");
  },
};

function nothing(): CommandAnswer {
  return onlySays("The agent asks for nothing here now.");
}

/** The oldest one is answered; where there are more it is said which that was, and what is asked next. */
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

/** A plain answer to an open question, where the door has no buttons: the command it stands for. */
export function plainAnswer(text: string): string | null {
  const word = text.trim().toLocaleLowerCase();
  if (/^[1-9]$/.test(word)) return `/allow ${word}`;
  if (["yes", "y", "ok", "ja", "oui", "si", "sí", "да", "是", "好", "可以", "はい"].includes(word)) return "/allow";
  if (["no", "n", "nein", "non", "нет", "不", "否", "不行", "いいえ"].includes(word)) return "/deny";
  return null;
}
