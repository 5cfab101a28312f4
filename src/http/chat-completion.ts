import { z } from "zod";
import { TertuliaError } from "../errors.ts";
import { optional } from "./body.ts";

/** OpenAI's chat completions as they are on the wire. Fields that mean nothing here are let through unread. */

const Part = z.object({ type: z.string(), text: optional(z.string()) });
const ChatMessage = z.object({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: optional(z.union([z.string(), z.array(Part)])),
});
type ChatMessage = z.infer<typeof ChatMessage>;

export const CompletionBody = z.object({
  model: optional(z.string()),
  messages: z.array(ChatMessage).min(1),
  stream: optional(z.boolean()),
  stream_options: optional(z.object({ include_usage: optional(z.boolean()) })),
  user: optional(z.string()),
});
export type CompletionBody = z.infer<typeof CompletionBody>;

/** What is said now. Throws `request_invalid` when the last message is not the user's, or not text. */
export function lastWords({ messages }: CompletionBody): string {
  const last = messages.at(-1);
  if (last?.role !== "user") throw new TertuliaError("request_invalid", "The last message must be the user's.");
  const other = Array.isArray(last.content) ? last.content.find((part) => part.type !== "text") : undefined;
  if (other === undefined) return textOf(last);
  throw new TertuliaError("request_invalid", `Parts of type ${JSON.stringify(other.type)} are not taken here.`, {
    remedy: "Send text.",
  });
}

/** What was said before, as far as it is text. */
export function historyOf({ messages }: CompletionBody): { role: "user" | "assistant"; text: string }[] {
  return messages.slice(0, -1).flatMap((message) => {
    const text = textOf(message);
    if (text === "") return [];
    if (message.role === "assistant" || message.role === "user") return [{ role: message.role, text }];
    return [{ role: "user", text: `(${message.role}) ${text}` }];
  });
}

/** What the program that asks wants the model to be; "" where it says nothing of that. */
export function instructionsOf({ messages }: CompletionBody): string {
  const said = messages.filter(({ role }) => role === "system" || role === "developer").map(textOf);
  return said.filter((text) => text.trim() !== "").join("\n");
}

function textOf({ content }: ChatMessage): string {
  return typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
}

interface Tokens {
  readonly input: number;
  readonly output: number;
}

export function completion(answer: { id: string; model: string; text: string; usage: Tokens | null }): object {
  const { id, model, text, usage } = answer;
  return {
    id: `chatcmpl-${id}`,
    object: "chat.completion",
    created: seconds(),
    model,
    choices: [
      { index: 0, message: { role: "assistant", content: text, refusal: null }, finish_reason: "stop", logprobs: null },
    ],
    ...(usage === null ? {} : { usage: usageOf(usage) }),
  };
}

/** One line of a stream, as JSON. */
export function chunk(answer: { id: string; model: string }, delta: object, finish: "stop" | null): string {
  return line(answer, { choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }] });
}

/** The last line of a stream that was asked for it. What was not counted is 0. */
export function usageChunk(answer: { id: string; model: string }, usage: Tokens | null): string {
  return line(answer, { choices: [], usage: usageOf(usage ?? { input: 0, output: 0 }) });
}

function line({ id, model }: { id: string; model: string }, more: object): string {
  return JSON.stringify({
    id: `chatcmpl-${id}`,
    object: "chat.completion.chunk",
    created: seconds(),
    model,
    ...more,
  });
}

/** Tokens as the runtime counted them (the demo's are words). */
function usageOf({ input, output }: Tokens): object {
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
}

function seconds(): number {
  return Math.floor(Date.now() / 1_000);
}
