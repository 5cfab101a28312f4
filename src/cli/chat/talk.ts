import { type Posted, type Question, type Shown, Transcript } from "../../channel/console/transcript.ts";
import type { Config } from "../../config/config.ts";
import { doorOf, nameOf } from "../../conversation/door.ts";
import type { Person } from "../../conversation/person.ts";
import { TertuliaError } from "../../errors.ts";
import type { Client, StreamItem } from "../client.ts";
import { output, printable } from "../output.ts";
import { Attachment } from "./attachment.ts";

/** What the ways of talking at the terminal share: a person, a line after the other, one question. */

export interface ChatFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  /** The name of the conversation at this door (K19). */
  readonly as?: string;
  readonly new?: boolean;
  /** `-`: what comes on standard input. */
  readonly query?: string;
  /** A pipe's lines are sent one by one, as if they were typed. */
  readonly lines?: boolean;
  readonly json?: boolean;
  /** How long a gateway that went away is waited for where no person does the waiting. */
  readonly wait?: string;
}

const LONGEST_WAIT_S = 86_400;

export interface Talk {
  readonly config: Config;
  readonly client: Client;
  readonly flags: ChatFlags;
  readonly door: Door;
  /** The gateway ends with this command. */
  readonly isHosted: boolean;
  readonly leaving: AbortController;
}

/** The terminal's door (K19), and the conversation behind it, which is the person's own where `dm_scope` says so (K12). */
export interface Door {
  readonly agent: string;
  readonly person: Person;
  readonly chatId: string;
  readonly address: string;
  readonly key: string;
}

export interface Front {
  readonly onShown: (shown: readonly Shown[]) => void;
  readonly onHeard?: (item: StreamItem) => void;
  readonly onSent?: (posted: Posted) => void;
  /** After something was sent or heard. */
  readonly onNews?: () => void;
}

/** A terminal at its conversation, and what it hears, to its end. */
export function attach({ client, door, leaving }: Talk, front: Front) {
  const { address, key, chatId, person } = door;
  // One conversation for every door of a person (K12): they are told apart by where a reply goes.
  const isEveryDoor = address !== key;
  const transcript = new Transcript({
    chatId,
    personId: person.id,
    doorOf: (at, target) => (isEveryDoor && at === key ? `${nameOf(target.platform)} ${target.chatId}` : doorOf(at)),
    elsewhere: isEveryDoor ? "another door" : "another terminal",
  });
  const attachment = new Attachment({ client, transcript, door: address, key, signal: leaving.signal, ...front });
  return { transcript, attachment, hearing: attachment.run() };
}

/** For a command without a person: fails when the gateway went away and is not back in time. */
export function patience({ flags: { wait = "60" } }: Talk): {
  heard(item: StreamItem): void;
  readonly over: Promise<never>;
  end(): void;
} {
  const seconds = Number(wait);
  if (!/^\d+$/.test(wait) || seconds < 1 || seconds > LONGEST_WAIT_S)
    throw new TertuliaError(
      "usage",
      `--wait ${wait} is not allowed; allowed: whole seconds from 1 to ${LONGEST_WAIT_S}.`,
      { remedy: "Correct the number, or leave --wait out." },
    );
  const { promise: over, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const giveUp = (): void => {
    const sentence = `The gateway went away and was not back within ${seconds} s.`;
    const remedy =
      "Start it again with `tertulia start`; what it had taken in is not lost: `tertulia sessions show` has it.";
    reject(new TertuliaError("gateway_down", sentence, { remedy }));
  };
  return {
    heard({ kind }) {
      clearTimeout(timer);
      if (kind === "cut") timer = setTimeout(giveUp, seconds * 1_000);
    },
    over,
    end: () => clearTimeout(timer),
  };
}

/** Whatever is first; what fails because one leaves is no failure. */
export async function untilLeft(signal: AbortSignal, ...works: Promise<void>[]): Promise<void> {
  try {
    await Promise.race(works);
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
}

/** By its number, or by an option's name. */
export async function answerQuestion(attachment: Attachment, question: Question, text: string): Promise<void> {
  const wanted = text.trim().toLowerCase();
  const option =
    question.options[Number(wanted) - 1] ??
    question.options.find(({ id, label }) => [id.toLowerCase(), label.toLowerCase()].includes(wanted));
  if (option === undefined)
    throw new TertuliaError("request_invalid", `${JSON.stringify(text.trim())} is no answer to the question.`, {
      remedy: `Answer with a number from 1 to ${question.options.length}, or stop the turn with /stop.`,
    });
  await attachment.answer(question, option.id);
}

export function complain({ code, message, remedy }: TertuliaError): void {
  process.stderr.write(`${code}: ${printable(message)}\n${printable(remedy)}\n`);
}

/** JSON escapes the control characters below 32 only; terminals obey some of the others too. */
export function outputJson(value: object): void {
  output(
    JSON.stringify(value).replace(
      /[\u007f-\u009f]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    ),
  );
}
