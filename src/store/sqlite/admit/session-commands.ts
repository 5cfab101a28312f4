import { bindingState, isAmongOwn } from "../../../conversation/binding.ts";
import { titleOf } from "../../../conversation/title.ts";
import type { Notice } from "../../../message/notice.ts";
import type { CommandEvent } from "../../events.ts";
import type { TurnSignal } from "../../turns.ts";
import type { Database } from "../database.ts";
import { bindingsOf, conversationRecord, currentSession, hasOpenTurn, sessionRecord } from "../records.ts";
import { isFallback, readersOf } from "../route.ts";
import { type BindingRecord, bindingOf, type ConversationRecord, type SessionRecord } from "../rows.ts";
import type { Admission, Spoken } from "./admission.ts";
import { setBinding } from "./bindings.ts";
import type { Enqueued } from "./enqueue.ts";
import { addNote, goOnIn, leaveForeignSessions, reopenSession } from "./sessions.ts";

/** Commands that change which session a conversation speaks in, and how (R6, B7, H8). The right to give them is checked before (A8). */

export type Effect<Kind extends CommandEvent["effect"]["kind"]> = Extract<CommandEvent["effect"], { kind: Kind }>;

/** A command that was carried out, or that says in its reply why it was not. */
export interface Commanded {
  readonly reply: Notice;
  /** The session that the conversation speaks in now, if that has changed. */
  readonly sessionId?: string;
  /** The turn of a reset's first message. */
  readonly first?: Enqueued;
  readonly signal?: TurnSignal;
}

export function notDone(reason: string): Commanded {
  return { reply: { code: "not_done", args: { reason } } };
}

/** Switches the runtime (B7). In a bound chat the switch acts on that chat (H9). */
export function switchRuntime(
  admission: Admission,
  { event, conversation }: Spoken<CommandEvent>,
  { to, from }: Effect<"runtime">,
): Commanded {
  const { db } = admission;
  leaveForeignSessions(admission, conversation, "switched");
  db.run(
    "UPDATE conversation SET runtime = ?, runtime_before = ?, runtime_trial = 1 WHERE id = ?",
    to,
    from,
    conversation.id,
  );
  const session = conversation.current_session;
  if (session !== null) {
    db.run("DELETE FROM note WHERE session_id = ? AND code = 'runtime_changed'", session);
    addNote(db, session, { code: "runtime_changed", args: { from, to: String(event.reply.args.to ?? to) } });
  }
  return { reply: event.reply };
}

/** Binds the chat to a session of the speaker's own, where nobody else reads along (H7, H8). */
export function handOff(
  admission: Admission,
  { event: { rules, reply }, conversation, who }: Spoken<CommandEvent>,
  effect: Effect<"bind">,
): Commanded {
  const { db } = admission;
  const session = sessionRecord(db, effect.sessionId);
  const ownerPerson = session?.owner_person ?? null;
  const isTheirs = ownerPerson !== null && ownerPerson === who.personId;
  if (session === undefined || !isTheirs || session.agent !== conversation.agent) return notDone("resume_unknown");
  if (session.ended_at !== null || session.suspended !== null) return notDone("handoff_ended");
  if (session.home === conversation.id) return notDone("handoff_home");
  if (!isAmongOwn(readersOf(db, conversation, { rules, owner: ownerPerson }), { ownerPerson }))
    return notDone("handoff_shared");
  const { expiresAt } = setBinding(admission, conversation, {
    kind: effect.binding,
    sessionId: session.id,
    ttlMs: effect.ttlMs,
    by: ownerPerson,
    shared: false,
  });
  const args = { ...reply.args, session: session.id, until: expiresAt };
  return { reply: { code: "handed_off", args }, sessionId: session.id };
}

/** Re-opens a session of the speaker's own (R6); a room's session stays in the room, and a person's never goes there. */
export function resume(
  admission: Admission,
  { conversation, who }: Spoken<CommandEvent>,
  sessionId: string,
): Commanded {
  const { db } = admission;
  const session = sessionRecord(db, sessionId);
  if (session === undefined) return notDone("resume_unknown");
  const isOwn = session.owner_person !== null && session.owner_person === who.personId;
  if (isOwn && conversation.person_id === null) return notDone("resume_in_room");
  const isTheirs = isOwn
    ? conversation.person_id === who.personId
    : session.owner_person === null && session.home === conversation.id;
  if (!isTheirs || session.agent !== conversation.agent || conversationRecord(db, session.home).kind !== "kept")
    return notDone("resume_unknown");
  const previous = conversation.current_session;
  const isHome = session.home === conversation.id;
  const isHere = isHome && previous === session.id;
  if (isHere && session.suspended === null && bindingsOf(db, conversation.id).length === 0)
    return notDone("resume_here");
  leaveForeignSessions(admission, conversation, "resumed");
  if (isHome) goOnIn(admission, conversation, { session, reason: "resumed" });
  else {
    reopenSession(admission, sessionRecord(db, session.id)!);
    setBinding(admission, conversation, {
      kind: "pinned",
      sessionId: session.id,
      ttlMs: 0,
      by: session.owner_person ?? "",
      shared: false,
    });
  }
  const args = { session: session.id, title: session.title, entries: session.seq, at: isHome ? "home" : "elsewhere" };
  return {
    reply: { code: "session_resumed", args: { ...args, previous: isHere ? null : previous } },
    sessionId: session.id,
  };
}

/** Takes back the binding of a bound chat (H9), else the last turn or the last reset, whichever is later (R6). */
export function undo(admission: Admission, conversation: ConversationRecord): Commanded {
  const { db } = admission;
  const current = currentSession(db, conversation);
  const isBusy =
    db.get("SELECT 1 FROM turn WHERE conversation_id = ? AND state IN('queued','running') LIMIT 1", conversation.id) !==
      undefined ||
    (current !== undefined && hasOpenTurn(db, current.id));
  if (isBusy) return notDone("undo_busy");
  const bound = validBinding(admission, conversation);
  if (bound !== undefined) {
    leaveForeignSessions(admission, conversation);
    return undone({ what: "binding", session: bound.session_id });
  }
  if (current === undefined) return notDone("undo_nothing");
  const last = lastStandingTurn(db, current.id);
  if (last !== null) {
    takeBack(admission, current, last);
    return undone({ what: "turn", text: wordsOf(db, last), session: current.id });
  }
  const parent = current.parent_id === null ? undefined : sessionRecord(db, current.parent_id);
  if (parent === undefined) return notDone("undo_nothing");
  goOnIn(admission, conversation, { session: parent, reason: "undone" });
  return { ...undone({ what: "reset", session: parent.id }), sessionId: parent.id };
}

function undone(args: Notice["args"]): Commanded {
  return { reply: { code: "undone", args } };
}

function lastStandingTurn(db: Database, sessionId: string): number | null {
  const row = db.get<{ turn_id: number }>(
    "SELECT turn_id FROM entry WHERE session_id = ? AND turn_id IS NOT NULL AND coalesce(mark, '') <> 'undone' ORDER BY seq DESC LIMIT 1",
    sessionId,
  );
  return row?.turn_id ?? null;
}

function wordsOf(db: Database, turnId: number): string {
  const first = db.get<{ body: string }>(
    "SELECT m.body FROM intake i JOIN message m ON m.id = i.message_id WHERE i.turn_id = ? ORDER BY m.id LIMIT 1",
    turnId,
  );
  return titleOf(first?.body ?? "");
}

/** Marks the turn's entries as undone; the agent is opened anew and gets only what stands. */
function takeBack(admission: Admission, session: SessionRecord, turnId: number): void {
  const { db } = admission;
  db.run("UPDATE entry SET mark = 'undone' WHERE session_id = ? AND turn_id = ?", session.id, turnId);
  db.run("UPDATE runtime_state SET ref = NULL WHERE session_id = ?", session.id);
  admission.consequences.rewound.push(session.id);
  if (session.parent_id === null || lastStandingTurn(db, session.id) !== null) return;
  // The turn that was told of the reset is gone: the next one is told again (R5).
  if (db.get("SELECT 1 FROM note WHERE session_id = ? AND code = 'session_reset'", session.id) !== undefined) return;
  const opened = db.get<{ opened_by: string; opened_at: number }>(
    "SELECT opened_by, opened_at FROM span WHERE session_id = ? AND n = 1",
    session.id,
  )!;
  const args = { reason: opened.opened_by, previous: session.parent_id, endedAt: opened.opened_at };
  addNote(db, session.id, { code: "session_reset", args });
}

/** Names the session that this conversation speaks in: its own, or one that it is bound to if its owner asks. */
export function entitle(
  admission: Admission,
  { event: { rules }, conversation, who }: Spoken<CommandEvent>,
  title: string,
): Commanded {
  const { db } = admission;
  const configured = rules.defaultSession === undefined ? undefined : sessionRecord(db, rules.defaultSession);
  const fallback = isFallback(configured, conversation, { db, rules }) ? configured.id : conversation.current_session;
  const id = validBinding(admission, conversation)?.session_id ?? fallback;
  const session = id === null ? undefined : sessionRecord(db, id);
  if (session === undefined) return notDone("title_nothing");
  const isOwn = session.home === conversation.id;
  if (!isOwn && (session.owner_person === null || session.owner_person !== who.personId))
    return notDone("title_elsewhere");
  db.run("UPDATE session SET title = ? WHERE id = ?", title, session.id);
  return { reply: { code: "titled", args: { session: session.id, title } } };
}

function validBinding({ db, now }: Admission, conversation: ConversationRecord): BindingRecord | undefined {
  return bindingsOf(db, conversation.id).find((binding) => bindingState(bindingOf(binding), now) === "valid");
}
