import type { Posted } from "../../channel/console/transcript.ts";
import { asTertuliaError, TertuliaError } from "../../errors.ts";
import type { SayKind } from "../../intake/local-doors.ts";
import type { Client } from "../client.ts";
import { output } from "../output.ts";
import { readable } from "./screen.ts";
import { signOnErrors } from "./sign-of-life.ts";
import { attach, complain, outputJson, patience, type Talk, untilLeft } from "./talk.ts";

/** `tertulia chat -q`, and a text from a pipe: one message, one answer. */
export async function ask(talk: Talk, { text, as }: { text: string; as: SayKind }): Promise<void> {
  const { flags, leaving } = talk;
  const waiting = patience(talk);
  const { transcript, attachment, hearing } = attach(talk, {
    onShown: () => undefined,
    onNews: () => sign.look(),
    onHeard(item) {
      waiting.heard(item);
      if (item.kind === "cut") process.stderr.write("[The gateway went away; waiting for it.]\n");
    },
  });
  const sign = signOnErrors(() => transcript.standing);
  let isStopping = false;
  const interrupt = (): void => {
    if (isStopping) {
      process.exitCode = 130;
      leaving.abort();
    }
    isStopping = true;
    attachment.send("/stop").catch((cause) => complain(asTertuliaError(cause)));
  };
  process.on("SIGINT", interrupt);
  try {
    await untilLeft(leaving.signal, hearing, answerOne(), waiting.over);
  } finally {
    sign.end();
    waiting.end();
    process.off("SIGINT", interrupt);
  }

  async function answerOne(): Promise<void> {
    if (flags.new) await attachment.send("/new");
    const posted = await attachment.send(text, as);
    // There is nobody who could be asked.
    while ((await attachment.settled()) === "asked") await attachment.answer(transcript.ownQuestion!, null);
    sign.end();
    const answer = posted.turn === null ? undefined : transcript.answerOf(posted.turn);
    if (answer !== undefined && answer.state !== "answered") throw await problemOf(talk.client, posted);
    const reply = answer === undefined ? (posted.reply ?? "") : answer.silent ? "" : answer.text;
    const { session, turn, message, conversation } = posted;
    if (flags.json) outputJson({ text: reply, session, turn, message, conversation, state: "answered" });
    else if (reply !== "") output(readable(reply));
    leaving.abort();
  }
}

/** The error that the author of the message got. */
async function problemOf(client: Client, { message }: Posted): Promise<TertuliaError> {
  const { answer } = await client.get<{ answer: { problem: ReturnType<TertuliaError["toJSON"]> | null } | null }>(
    `/api/messages/${message}`,
  );
  const {
    code,
    message: sentence,
    remedy,
  } = answer?.problem ?? { code: "turn_failed" as const, message: "The message was not answered." };
  return new TertuliaError(code, sentence, remedy === undefined ? {} : { remedy });
}
