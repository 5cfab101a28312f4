import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  HERMES_SCHEMAS,
  type HermesSchema,
  type HermesState,
  hasChatTypes,
  hermesState,
  withParts,
} from "../../../test/support/hermes-state.ts";
import { temporaryFolder } from "../../../test/support/store.ts";
import { asTertuliaError } from "../../errors.ts";
import { encloseFacts } from "../../text/prompt-words.ts";
import { DEFAULT_DIGEST, type Digest, readDigest } from "../digest.ts";
import { otherReaders } from "./other-readers.ts";
import { createHermesTalks } from "./talks.ts";

const DAY = 1_764_460_800; // 2025-11-30T00:00:00Z
const at = (hours: number, minutes = 0): number => DAY + hours * 3600 + minutes * 60;
const NOW = at(12, 30) * 1000;

let folder: ReturnType<typeof temporaryFolder>;
let open: HermesState[];
beforeEach(() => {
  folder = temporaryFolder();
  open = [];
});
afterEach(() => {
  for (const state of open) state.close();
  folder.remove();
});

const path = (): string => join(folder.path, "state.db");

function made(schema: HermesSchema = "v30"): HermesState {
  const state = hermesState(path(), schema);
  open.push(state);
  return state;
}

function digest(owners: readonly string[] = [], now = NOW): Promise<Digest> {
  return readDigest(createHermesTalks({ path: path(), owners }), DEFAULT_DIGEST, now);
}

async function said(owners: readonly string[] = []): Promise<Record<string, (string | null)[][]>> {
  const { sections } = await digest(owners);
  return Object.fromEntries(
    sections.map(({ platform, pairs }) => [platform, pairs.map(({ user, reply }) => [user, reply])]),
  );
}

describe.each(HERMES_SCHEMAS)("D1: schema %s", (schema) => {
  test("D1: D2: G-SYN-06: the session of which somebody said something last is the one, not a helper, a job or an empty one", async () => {
    const state = made(schema);
    const s1 = state.session({ id: "s1", started_at: at(8) });
    state.message(s1, "user", "the talk", at(11, 55));
    state.message(s1, "assistant", "goes on", at(12));
    const s2 = state.session({ id: "s2", started_at: at(9), ended_at: at(9, 30), end_reason: "idle" });
    state.message(s2, "user", "over", at(9, 29));
    const s3 = state.session({ id: "s3", started_at: at(12, 1), parent_session_id: s1 });
    state.message(s3, "assistant", "help", at(12, 5));
    const s4 = state.session({ id: "s4", source: "cron", started_at: at(12, 9) });
    state.message(s4, "assistant", "job", at(12, 10));
    state.session({ id: "s5", started_at: at(11) });
    expect(await said()).toEqual({ telegram: [["the talk", "goes on"]] });
  });

  test("D2: of sessions with equal times it is always the same", async () => {
    const state = made(schema);
    for (const id of ["b", "a", "c"]) state.message(state.session({ id }), "user", id, at(12));
    expect(await said()).toEqual({ telegram: [["a", null]] });
    expect(await digest()).toEqual(await digest());
  });

  test("D1: pictures, text with parts, and rows that are none", async () => {
    const state = made(schema);
    const s = state.session({ id: "s" });
    state.message(s, "session_meta", "{}", at(12));
    state.message(s, "system", "You are …", at(12));
    state.message(
      s,
      "user",
      withParts(
        { type: "text", text: "what is this?" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(5000)}` } },
      ),
      at(12, 1),
    );
    state.message(s, "assistant", null, at(12, 2), { tool_calls: "[]" });
    state.message(s, "tool", "x".repeat(10_000), at(12, 3));
    state.message(s, "assistant", "A cat.", at(12, 4));
    state.message(s, "user", withParts({ type: "image_url", image_url: { url: "data:," } }), at(12, 5));
    state.message(s, "assistant", "A dog.", at(12, 6));
    state.message(s, "user", "\u0000json:{broken", at(12, 7));
    expect(await said()).toEqual({
      telegram: [
        ["what is this?", "A cat."],
        ["[picture]", "A dog."],
      ],
    });
  });

  test("D2: clock oddities: rows go by their order; a time that can be none is none", async () => {
    const state = made(schema);
    const s = state.session({ id: "s" });
    state.message(s, "user", "long before", at(9));
    state.message(s, "user", "one", at(12, 10));
    state.message(s, "assistant", "two", at(12, 8));
    state.message(s, "user", "three", "yesterday");
    state.message(s, "assistant", "four", 1e300);
    state.message(s, "user", "five", at(12, 8));
    state.message(s, "assistant", "six", at(99_999));
    const { sections } = await digest();
    expect(sections).toMatchObject([
      {
        lastAt: at(12, 8) * 1000,
        pairs: [
          { user: "one", reply: "two" },
          { user: "three", reply: "four" },
          { user: "five", reply: "six" },
        ],
      },
    ]);
  });

  test("D2: a session whose clock ran ahead is not the latest for ever", async () => {
    const state = made(schema);
    state.message(state.session({ id: "ahead" }), "user", "from 2090", at(24 * 365 * 60));
    state.message(state.session({ id: "now" }), "user", "of today", at(12));
    expect(await said()).toEqual({ telegram: [["of today", null]] });
  });

  test("D1: an answer far behind many calls of tools is found with its question", async () => {
    const state = made(schema);
    const s = state.session({ id: "s" });
    state.message(s, "user", "work", at(12));
    for (let i = 0; i < 500; i++)
      state.message(s, i % 2 === 0 ? "assistant" : "tool", i % 2 === 0 ? null : "out", at(12, i / 60));
    state.message(s, "assistant", "done", at(12, 9));
    expect(await said()).toEqual({ telegram: [["work", "done"]] });
  });

  test("D1: the file is never written, and what is still in its log is read", async () => {
    const state = made(schema);
    state.message(state.session({ id: "s" }), "user", "in the log only", at(12));
    const hash = (): string => createHash("sha256").update(readFileSync(path())).digest("hex");
    const before = hash();
    expect(await said()).toEqual({ telegram: [["in the log only", null]] });
    expect(hash()).toBe(before);
    // The proof that it stands in the log: a copy of the file alone does not have it.
    const alone = temporaryFolder();
    copyFileSync(path(), join(alone.path, "state.db"));
    await expect(
      readDigest(createHermesTalks({ path: join(alone.path, "state.db") }), DEFAULT_DIGEST, NOW),
    ).rejects.toThrow();
    alone.remove();
  });

  test("D1: what a Hermes that was killed left in its log is read, and stays there: the last reader does not tidy up", async () => {
    const state = made(schema);
    state.message(state.session({ id: "s" }), "user", "in the log only", at(12));
    const left = temporaryFolder();
    for (const name of ["state.db", "state.db-wal"]) copyFileSync(join(folder.path, name), join(left.path, name));
    const bytes = (): string[] =>
      ["state.db", "state.db-wal"].map((name) => readFileSync(join(left.path, name)).toString("base64"));
    const before = bytes();
    const source = createHermesTalks({ path: join(left.path, "state.db") });
    const { sections } = await readDigest(source, DEFAULT_DIGEST, NOW);
    expect(sections.flatMap(({ pairs }) => pairs.map(({ user }) => user))).toEqual(["in the log only"]);
    expect(bytes()).toEqual(before);
    left.remove();
  });

  test("D1: a writer in the middle of a transaction holds up nothing", async () => {
    const state = made(schema);
    state.message(state.session({ id: "s" }), "user", "committed", at(12));
    state.exec("BEGIN IMMEDIATE");
    state.message("s", "user", "not yet", at(12, 1));
    expect(await said()).toEqual({ telegram: [["committed", null]] });
    state.exec("COMMIT");
    expect(await said()).toEqual({
      telegram: [
        ["committed", null],
        ["not yet", null],
      ],
    });
  });

  test("D9: a home with group sessions, or with sessions of which nothing says what they are, is read by others", async () => {
    const state = made(schema);
    state.message(state.session({ id: "t", source: "cli" }), "user", "terminal", at(12));
    const readers = (): string[] => otherReaders({ path: path(), owners: [], now: NOW });
    expect(readers()).toEqual([]);
    state.session({ id: "g", source: "discord", chat_type: "group", session_key: "agent:main:discord:group:G:u" });
    if (!hasChatTypes(schema))
      expect(readers()).toEqual(["Of 1 sessions nothing says whether they are group sessions."]);
    else expect(readers()).toEqual(["There are 1 group sessions."]);
  });
});

describe("D1: rows of newer schemas", () => {
  test("D1: archived by a compaction: shown; undone, hidden, received, summary, silence, repeated: not", async () => {
    const state = made();
    const s = state.session({ id: "s" });
    state.message(s, "user", "archived", at(12), { active: 0, compacted: 1 });
    state.message(s, "assistant", "archived for good", at(12), { active: 0, compacted: 1 });
    state.message(s, "user", "undone", at(12), { active: 0, compacted: 0 });
    state.message(s, "user", "hidden", at(12), { display_kind: "hidden" });
    state.message(s, "user", "an event", at(12), { display_kind: "model_switch" });
    state.message(s, "user", "received", at(12), { observed: 1 });
    state.message(s, "assistant", "a summary", at(12), { _compressed_summary: 1 });
    state.message(s, "user", "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns …", at(12));
    state.message(s, "user", "[CONTEXT SUMMARY]: so far …", at(12));
    state.message(s, "assistant", "[SILENT]", at(12));
    state.message(s, "user", "archived", at(12));
    state.message(s, "user", "same identity", at(12, 1), { display_identity: new Uint8Array([1]) });
    state.message(s, "user", "same identity, other time", at(12, 2), { display_identity: new Uint8Array([1]) });
    expect(await said()).toEqual({
      telegram: [
        ["archived", "archived for good"],
        ["same identity", null],
      ],
    });
  });

  test("D1: the number of a schema does not say its columns: they are looked up", async () => {
    const state = made("v6");
    state.exec(
      "ALTER TABLE messages ADD COLUMN active INTEGER NOT NULL DEFAULT 1; ALTER TABLE sessions ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    );
    const s = state.session({ id: "s" });
    state.message(s, "user", "stands", at(12));
    state.message(s, "user", "undone", at(12));
    state.message(state.session({ id: "h" }), "user", "hidden", at(12, 1));
    state.exec(
      "UPDATE messages SET active = 0 WHERE content = 'undone'; UPDATE sessions SET hidden = 1 WHERE id = 'h'",
    );
    expect(await said()).toEqual({ telegram: [["stands", null]] });
  });

  test("D1: what a person wrote in one row with a summary is shown without it", async () => {
    const state = made();
    const s = state.session({ id: "s" });
    state.message(
      s,
      "user",
      "[CONTEXT COMPACTION — REFERENCE ONLY] old things\n\n--- END OF CONTEXT SUMMARY — respond below ---\n\nthe real one",
      at(12),
    );
    state.message(
      s,
      "user",
      "[PRIOR CONTEXT — for reference only]\nthe first\n\n[END OF PRIOR CONTEXT — BELOW]\n\n[CONTEXT COMPACTION — REFERENCE ONLY] old",
      at(12, 1),
    );
    expect(await said()).toEqual({
      telegram: [
        ["the real one", null],
        ["the first", null],
      ],
    });
  });

  test("D1: rows are shown in the order Hermes displays them, where it says one", async () => {
    const state = made();
    const s = state.session({ id: "s" });
    state.message(s, "assistant", "answer", at(12, 1), { display_order: 2 });
    state.message(s, "user", "question", at(12), { display_order: 1 });
    expect(await said()).toEqual({ telegram: [["question", "answer"]] });
  });

  test("D1: a picture of many megabytes costs no more than its words", async () => {
    const state = made();
    const s = state.session({ id: "s" });
    state.message(
      s,
      "user",
      withParts({ type: "text", text: "big" }, { type: "image_url", image_url: { url: "A".repeat(3_000_000) } }),
      at(12),
    );
    expect(await said()).toEqual({ telegram: [["big", null]] });
  });

  test("D2: marks of a session's model_config: a helper is none, an inherited mark does not make one, a broken one is no harm", async () => {
    const state = made();
    const parent = state.session({ id: "p", started_at: at(8), ended_at: at(10), end_reason: "compression" });
    state.message(parent, "user", "parent", at(9));
    const child = state.session({
      id: "c",
      parent_session_id: parent,
      started_at: at(10),
      model_config: '{"_delegate_from":"somebody else"}',
    });
    state.message(child, "user", "went on", at(11));
    const helper = state.session({
      id: "h",
      parent_session_id: parent,
      started_at: at(11),
      model_config: '{"_delegate_from":"p"}',
    });
    state.message(helper, "user", "task", at(12));
    const broken = state.session({ id: "b", started_at: at(8), model_config: '{"_delegate_from": ' });
    state.message(broken, "user", "broken", at(9));
    expect(await said()).toEqual({ telegram: [["went on", null]] });
  });

  test("D2: a session that was put away is none", async () => {
    const state = made();
    for (const [i, more] of [{ archived: 1 }, { hidden: 1 }, {}].entries())
      state.message(state.session({ id: `s${i}`, ...more }), "user", `s${i}`, at(12, 10 - i));
    expect(await said()).toEqual({ telegram: [["s2", null]] });
  });
});

describe("D9: whose talk it is", () => {
  test("D9: G-SYN-02: with direct chats of several people nothing of that platform is told, until the owner is named", async () => {
    const state = made();
    state.message(state.session({ id: "a", user_id: "1", chat_type: "dm" }), "user", "Alice's", at(12));
    state.message(state.session({ id: "b", user_id: "2", chat_type: "dm" }), "user", "Bob's", at(12, 5));
    state.message(state.session({ id: "t", source: "cli" }), "user", "terminal", at(12));
    expect(await said()).toEqual({ cli: [["terminal", null]] });
    expect((await digest()).notes).toEqual([
      "telegram is left out: its direct chats are of several people (1, 2). Say which one is the owner: --owner telegram:ID.",
    ]);
    expect(await said(["telegram:1"])).toEqual({ cli: [["terminal", null]], telegram: [["Alice's", null]] });
  });

  test("D9: G-SYN-03: group sessions are no source, by their row, their key, the index or the routing table", async () => {
    const state = made();
    const group = (id: string, more: Record<string, string> = {}) =>
      state.message(state.session({ id, source: `door-${id}`, ...more }), "user", "among others", at(12));
    group("row", { chat_type: "group" });
    group("thread", { chat_type: "thread" });
    group("key", { session_key: "agent:main:slack:channel:C1:U1" });
    group("index");
    group("routing");
    group("direct");
    state.exec(
      `INSERT INTO gateway_routing VALUES('', 'k', '{"session_id":"routing","origin":{"chat_type":"group"}}', 1)`,
    );
    mkdirSync(join(folder.path, "sessions"));
    writeFileSync(
      join(folder.path, "sessions", "sessions.json"),
      JSON.stringify({
        _README: { session_id: "direct", chat_type: "group" },
        k: { session_id: "index", origin: { chat_type: "group" } },
        bad: null,
      }),
    );
    expect(Object.keys(await said())).toEqual(["door-direct"]);
    expect((await digest()).notes).toContain("5 group sessions are left out.");
  });

  test("D9: programs at the API and at webhooks are nobody's talk", async () => {
    const state = made();
    for (const source of ["api_server", "webhook", "batch", "subagent", "tool"])
      state.message(state.session({ id: source, source }), "user", "x", at(12));
    expect(await said()).toEqual({});
  });
});

describe("D1: what cannot be read is said", () => {
  const failure = async (): Promise<{ code: string; message: string }> => {
    try {
      await digest();
    } catch (cause) {
      return asTertuliaError(cause);
    }
    throw new Error("It was read.");
  };

  test("D1: no file, no database, no Hermes", async () => {
    expect(await failure()).toMatchObject({ code: "foreign_state", message: `There is no file ${path()}.` });
    writeFileSync(path(), "not a database at all, but long enough to be taken for one by its size".repeat(20));
    expect(await failure()).toMatchObject({
      code: "foreign_state",
      message: expect.stringContaining("is damaged, or is no database"),
    });
    writeFileSync(path(), "");
    new DatabaseSync(path()).close();
    expect(await failure()).toMatchObject({ code: "foreign_state", message: `${path()} is not a state.db of Hermes.` });
  });

  test("D1: a session whose pages are damaged is left out and named, the others are told", async () => {
    const state = made("v17");
    const filler = "f".repeat(3_000);
    state.message(state.session({ id: "good", source: "cli" }), "user", "good", at(12));
    const bad = state.session({ id: "bad", source: "weixin" });
    for (let i = 0; i < 40; i++) state.message(bad, "user", `needle-${i} ${filler}`, at(12));
    state.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    state.close();
    const bytes = readFileSync(path());
    // Every leaf page that holds only rows of the bad session becomes garbage.
    for (let page = 4096; page < bytes.length; page += 4096) {
      const slice = bytes.subarray(page, page + 4096);
      const isLeaf = slice[0] === 0x0d;
      if (isLeaf && slice.includes("needle-") && !slice.includes("good")) slice.fill(0xee);
    }
    writeFileSync(path(), bytes);
    const { sections, notes } = await digest();
    expect(sections.map(({ platform }) => platform)).toContain("cli");
    expect(notes).toContain("Session bad is damaged in the file, and left out.");
  });
});

/** A prompt as Hermes keeps it of a turn that we ran. */
function prompt(words: string, { source = "CLI terminal", from = '"Ann", id "owner"; rights: owner' } = {}): string {
  const nonce = "0123456789abcdef0123456789abcdef";
  return `${encloseFacts([`Source: ${source}`, `From: ${from}`, "Time: now"], nonce)}\n\n${words}`;
}

// The kind: whatever a session of Hermes' own holds of ours after a handoff: our facts, others' words, answers to others.
describe("F-HER-02 D11 a handoff leaves nothing of ours in the user's words", () => {
  test("F-HER-02 our facts are taken off, and what others said and were answered is not the user's", async () => {
    const state = made();
    const id = state.session({ id: "s", source: "cli", started_at: at(11) });
    state.message(id, "user", "before the handoff", at(12));
    state.message(id, "assistant", "yes", at(12, 1));
    state.message(id, "user", prompt("from the owner"), at(12, 2));
    state.message(id, "assistant", "for the owner", at(12, 3));
    const room = { source: 'XMPP (group: "core")', from: '"Bob", id "bob@x"; rights: guest' };
    state.message(id, "user", prompt("[Bob] the password is swordfish", room), at(12, 4));
    state.message(id, "assistant", "thank you, Bob", at(12, 5));
    state.message(id, "user", prompt("of the owner in the room", { source: room.source }), at(12, 5));
    state.message(id, "user", prompt("last of the owner"), at(12, 6));
    expect(await said()).toEqual({
      cli: [
        ["before the handoff", "yes"],
        ["from the owner", "for the owner"],
        ["of the owner in the room", null],
        ["last of the owner", null],
      ],
    });
  });

  test("F-HER-02 words that only look like our facts are the user's own", async () => {
    const state = made();
    const id = state.session({ id: "s", source: "cli", started_at: at(11) });
    state.message(id, "user", `what is this?\n${prompt("hm")}`, at(12));
    const { sections } = await digest();
    expect(sections[0]?.pairs[0]?.user).toContain("what is this? --- facts 0123456789abcdef");
  });

  test("F-HER-02 a prompt that was cut inside its facts is nobody's words", async () => {
    const state = made();
    const id = state.session({ id: "s", source: "cli", started_at: at(11) });
    state.message(id, "user", "hello", at(12));
    state.message(id, "user", prompt("").slice(0, 60), at(12, 1));
    expect(await said()).toEqual({ cli: [["hello", null]] });
  });
});
