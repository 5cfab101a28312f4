import { type Element, xml } from "@xmpp/client";
import { createParser } from "eventsource-parser";
import { readCursor } from "../../src/channel/xmpp/cursor.ts";
import { createEchoMark, isOfAgent } from "../../src/channel/xmpp/echo-mark.ts";
import { bareOf, resourceOf } from "../../src/channel/xmpp/jid.ts";
import { readPresence } from "../../src/channel/xmpp/occupants.ts";
import { readAddress } from "../../src/channel/xmpp/private-address.ts";
import { readMessage } from "../../src/channel/xmpp/read-stanza.ts";
import { cleanXml } from "../../src/channel/xmpp/xmpp-sender.ts";
import { columnAfter, readable } from "../../src/cli/chat/screen.ts";
import { printable } from "../../src/cli/output.ts";
import { oneLine as oneLineOfTable } from "../../src/cli/table.ts";
import { createIdMask } from "../../src/context/id-mask.ts";
import { renderWords, roomRows } from "../../src/context/render-history.ts";
import { createSpeakers } from "../../src/context/speakers.ts";
import { addressOf, isCommandFor } from "../../src/conversation/addressing.ts";
import { type AccessPolicy, meaningOf } from "../../src/conversation/gate.ts";
import { parseSessionKey } from "../../src/conversation/session-key.ts";
import { titleOf } from "../../src/conversation/title.ts";
import { DIGEST_MARKERS, findBlock } from "../../src/digest/block.ts";
import { isNoise, pairsOf, shortened } from "../../src/digest/digest.ts";
import { accountId, cleanText, isBlank } from "../../src/message/source.ts";
import { failureOf, lastWords } from "../../src/runtime/acp/failures.ts";
import { readSaid, readUpdate } from "../../src/runtime/acp/updates.ts";
import { estimateTokens } from "../../src/runtime/http/history-window.ts";
import { promptOf, readRows } from "../../src/runtime/prompt.ts";
import { createMask, readServerError } from "../../src/runtime/wire/failures.ts";
import { parseJson } from "../../src/runtime/wire/parse-json.ts";
import { assembleReply } from "../../src/text/assemble.ts";
import { readOriginId } from "../../src/text/origin-id.ts";
import { exceptSilence, isSilence } from "../../src/text/silence.ts";
import { splitText } from "../../src/text/split.ts";
import * as untrusted from "../../src/text/untrusted.ts";
import { plainAnswer } from "../../src/turn/command/allow.ts";
import { commandOf } from "../../src/turn/command/commands.ts";
import { chosen } from "../../src/turn/command/resume.ts";
import { MarkStream, shownMarks, withoutMark } from "../../src/turn/leading-mark.ts";
import { maskSecrets } from "../../src/util/mask-secrets.ts";

export type Reader = readonly [name: string, read: (text: string) => unknown];

const AGENT = { name: "mohe", names: ["mohe", "墨盒"], mentionFormat: "<{name}>", answer: "addressed" } as const;
const OTHERS = ["mohe", "墨盒", "mohe2", "zhiwei"];
const HOUSE: AccessPolicy = { agent: AGENT, names: OTHERS, agents: new Map(), people: new Map(), access: null };
const AUTHOR = { kind: "person", id: "ann", name: "Ann" } as const;
const speakers = createSpeakers({
  agent: "mohe",
  known: [AUTHOR],
  platform: "xmpp",
  mask: createIdMask({ redactPii: true, secret: "s" }),
});
const source = { platform: "xmpp", account: "mohe@test", chatType: "dm", chatId: "ann@test", isBot: false } as const;
const target = { door: "push", platform: "xmpp", account: "mohe@test", chatId: "ann@test" } as const;
const echoes = createEchoMark("secret");
const ACP_AGENT = { title: "Agent", command: "agent", signIn: "Sign in." } as never;

function heard(text: string) {
  const base = { eventId: "1", source, target, saidAt: 0, isOwn: false } as const;
  return { ...base, kind: "message", text, isHistory: false, ownName: "mohe" } as const;
}
const stanza = (text: string, ...more: Element[]): Element =>
  xml("message", { from: `a@b/${text}`, to: text, id: text, type: "groupchat" }, xml("body", {}, text), ...more);

/** Every pure function that is given text of people, agents, servers, archives or files. */
export const READERS: readonly Reader[] = [
  ["addressOf", (text) => addressOf({ text, isReplyToOwn: false, isMentioned: false }, AGENT, OTHERS)],
  [
    "addressOf, addressed",
    (text) => addressOf({ text: `@mohe ${text}`, isReplyToOwn: true, isMentioned: true }, AGENT, OTHERS),
  ],
  ["isCommandFor", (text) => isCommandFor(text, AGENT)],
  ["isCommandFor, a command", (text) => isCommandFor(`/a@${text}`, AGENT)],
  [
    "meaningOf",
    (text) => meaningOf(heard(text), { kind: "unknown", id: "a", seenAs: "a", isBot: false }, HOUSE, false),
  ],
  [
    "meaningOf, a command",
    (text) => meaningOf(heard(`/a${text}`), { kind: "unknown", id: "a", seenAs: "a", isBot: false }, HOUSE, false),
  ],
  ["commandOf", (text) => commandOf(`/status ${text}`)],
  ["commandOf, the name", (text) => commandOf(`/${text}`)],
  ["plainAnswer", plainAnswer],
  ["chosen", (text) => chosen([{ title: text } as never], text)],
  ["titleOf", titleOf],
  ["cleanText", cleanText],
  ["isBlank", isBlank],
  ["accountId", (text) => accountId("xmpp", text)],
  ["parseSessionKey", (text) => attempt(() => parseSessionKey(`agent:mohe:xmpp:dm:${text}`))],
  ["oneLine", untrusted.oneLine],
  ["quoteUntrusted", (text) => untrusted.quoteUntrusted(text)],
  ["linesOf", untrusted.linesOf],
  ["eachLine and escapeMark", (text) => untrusted.eachLine(text, untrusted.escapeMark)],
  ["eachLine and escapeOwnMark", (text) => untrusted.eachLine(text, untrusted.escapeOwnMark)],
  ["isYou", untrusted.isYou],
  ["lookOf", untrusted.lookOf],
  ["nameInMark", untrusted.nameInMark],
  ["renderWords", (body) => renderWords({ author: AUTHOR, body }, { speakers, named: true })],
  ["roomRows", (body) => roomRows({ author: AUTHOR, body }, speakers, 500)],
  [
    "markOf",
    (name) =>
      createSpeakers({
        agent: "mohe",
        known: [{ ...AUTHOR, name }],
        platform: "xmpp",
        mask: createIdMask({ redactPii: true, secret: "s" }),
      }).markOf({ ...AUTHOR, name }),
  ],
  ["promptOf and readRows", (text) => readRows(promptOf({ facts: "", missed: [{ role: "user", text }], text }))],
  ["readRows", (text) => readRows(`This session so far${text}:\n| they: a\n${text}`)],
  ["splitText, code points", (text) => splitText(text, { limit: 1_000, unit: "codepoints" })],
  ["splitText, bytes", (text) => splitText(text, { limit: 1_000, unit: "bytes" })],
  ["assembleReply", (text) => assembleReply(text, target)],
  ["isSilence", isSilence],
  [
    "exceptSilence, letter by letter",
    (text) =>
      each(
        text,
        exceptSilence(() => undefined),
      ),
  ],
  ["withoutMark", (text) => withoutMark(text, shownMarks(["[YOU]", "[a]"]))],
  ["MarkStream, letter by letter", (text) => streamed(text)],
  ["readOriginId", readOriginId],
  ["readMessage", (text) => readMessage(stanza(text))],
  [
    "readMessage, a reply",
    (text) =>
      readMessage(
        stanza(
          text,
          xml(
            "fallback",
            { xmlns: "urn:xmpp:fallback:0", for: "urn:xmpp:reply:0" },
            xml("body", { start: "1", end: "2" }),
          ),
        ),
      ),
  ],
  [
    "readPresence",
    (text) =>
      readPresence(
        xml(
          "presence",
          { from: `a@b/${text}` },
          xml("x", { xmlns: "http://jabber.org/protocol/muc#user" }, xml("item", { jid: text, nick: text })),
        ),
      ),
  ],
  ["readAddress", readAddress],
  ["readAddress, an occupant", (text) => readAddress(`a@b?occupant=${text}`)],
  ["bareOf, resourceOf", (text) => bareOf(text) + resourceOf(text)],
  ["isOfAgent, keyOf", (text) => isOfAgent(`tertulia-${text}`) || echoes.isSaid(`tertulia-${text}`, text)],
  ["readCursor", readCursor],
  ["cleanXml", cleanXml],
  ["printable", printable],
  ["readable", readable],
  ["oneLine of a table", oneLineOfTable],
  [
    "pairsOf",
    (text) => pairsOf([{ role: "user", text, at: 1 } as never, { role: "assistant", text, at: 2 } as never], 5),
  ],
  ["shortened", (text) => shortened(text, 1_000)],
  ["isNoise", (text) => isNoise(text, ["[System:"])],
  ["findBlock", (text) => findBlock(Buffer.from(text), DIGEST_MARKERS)],
  ["lastWords", (text) => lastWords(text, ["a-secret"])],
  ["failureOf, an agent's refusal", (text) => failureOf({ code: -32_603, message: text }, ACP_AGENT)],
  ["columnAfter", (text) => columnAfter(0, text, 80)],
  [
    "readUpdate, readSaid",
    (text) =>
      readSaid(
        readUpdate({
          sessionId: "s",
          update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
        })!.update as never,
      ),
  ],
  ["readServerError", (text) => readServerError({ error: { message: text, code: text } })],
  ["createMask", createMask(["a-secret"])],
  ["parseJson", parseJson],
  ["the event stream", (text) => createParser({ onEvent: () => undefined, onError: () => undefined }).feed(text)],
  ["estimateTokens", estimateTokens],
  // In the end its own tests hold it to more than this.
  ["maskSecrets", maskSecrets],
];

function streamed(text: string): void {
  const stream = new MarkStream(shownMarks(["[YOU]"]));
  each(text, (letter) => void stream.take(letter));
}

function each(text: string, say: (part: string) => void): void {
  for (const letter of text) say(letter);
}

function attempt(work: () => unknown): unknown {
  try {
    return work();
  } catch (cause) {
    return cause;
  }
}
