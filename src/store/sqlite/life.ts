import { bindingState, isAmongOwn } from "../../conversation/binding.ts";
import type { Authority } from "../../conversation/person.ts";
import { titleOf } from "../../conversation/title.ts";
import type { Notice } from "../../message/notice.ts";
import type { CommandEvent } from "../store.ts";
import { bindingOf, type ConversationRecord, type SessionRecord } from "./rows.ts";
import {
  type Admit,
  addNote,
  bindingsOf,
  clearBindings,
  conversationRecord,
  goOnIn,
  hasOpenTurn,
  isFallback,
  leaveForeignSessions,
  policyOf,
  readersOf,
  reopenSession,
  sessionRecord,
  setBinding,
} from "./sessions.ts";

/** What the commands of the life cycle do inside `admit`, for whoever has the right to (A8); each gives its own answer, or says why it did nothing. */

export interface Commanded {
  readonly reply: Notice;
  /** Where the conversation speaks now, if that has changed. */
  readonly sessionId?: string;
}

export function lifeCommand(
  admit: Admit,
  conversation: ConversationRecord,
  event: CommandEvent,
  who: Authority,
): Commanded | null {
  const { effect, reply } = event;
  switch (effect.kind) {
    case "resume":
      return resume(admit, conversation, { sessionId: effect.sessionId, who });
    case "undo":
      return undo(admit, conversation);
    case "title":
      return entitle(admit, conversation, { event, title: effect.title, who });
    case "policy": {
      const override = effect.policy === null ? null : JSON.stringify(effect.policy);
      const next = { ...conversation, reset_override: override };
      admit.db.run(
        "UPDATE conversation SET reset_override = ?, reset_policy = ? WHERE id = ?",
        override,
        JSON.stringify(policyOf(next, event.rules)),
        conversation.id,
      );
      return { reply };
    }
    case "home": {
      const { platform } = event.source;
      admit.db.run(
        `INSERT INTO home(agent, platform, conversation_id, set_by, at) VALUES(?, ?, ?, ?, ?)
         ON CONFLICT(agent, platform) DO UPDATE SET conversation_id = excluded.conversation_id, set_by = excluded.set_by, at = excluded.at`,
        conversation.agent,
        platform,
        conversation.id,
        who.personId ?? "",
        admit.now,
      );
      return { reply: { code: reply.code, args: { ...reply.args, platform } } };
    }
    case "runtime":
      return switchRuntime(admit, conversation, { to: effect.to, from: effect.from, event });
    case "bind":
      return handOff(admit, conversation, { effect, who, event });
    case "unbind":
      return { reply: { code: "handoff_cleared", args: { had: clearBindings(admit, conversation) } } };
    default:
      return null;
  }
}

/** B7. Typed in a bound chat it acts on that chat (H9). */
function switchRuntime(
  admit: Admit,
  conversation: ConversationRecord,
  { to, from, event }: { to: string | null; from: string; event: CommandEvent },
): Commanded {
  const { db } = admit;
  leaveForeignSessions(admit, conversation, "switched");
  db.run(
    "UPDATE conversation SET runtime = ?, runtime_before = ?, runtime_trial = 1 WHERE id = ?",
    to,
    from,
    conversation.id,
  );
  const session = conversation.current_session;
  if (session !== null) {
    db.run("DELETE FROM note WHERE session_id = ? AND code = 'runtime_changed'", session);
    addNote(db, session, "runtime_changed", { from, to: String(event.reply.args.to ?? to) });
  }
  return { reply: event.reply };
}

/** H7, H8: to a session of one's own, and where others read along only where that was said. */
function handOff(
  admit: Admit,
  conversation: ConversationRecord,
  {
    effect,
    who,
    event: { rules, reply },
  }: { effect: Extract<CommandEvent["effect"], { kind: "bind" }>; who: Authority; event: CommandEvent },
): Commanded {
  const { db } = admit;
  const session = sessionRecord(db, effect.sessionId);
  const isTheirs = session?.owner_person != null && session.owner_person === who.personId;
  if (session === undefined || !isTheirs || session.agent !== conversation.agent) return notDone("resume_unknown");
  if (session.ended_at !== null || session.suspended !== null) return notDone("handoff_ended");
  if (session.home === conversation.id) return notDone("handoff_home");
  const owner = session.owner_person;
  if (!isAmongOwn(readersOf(db, conversation, { rules, owner }), { ownerPerson: owner }))
    return notDone("handoff_shared");
  const { expiresAt } = setBinding(admit, conversation, {
    kind: effect.binding,
    sessionId: session.id,
    ttlMs: effect.ttlMs,
    by: owner ?? "",
    shared: false,
  });
  return {
    reply: { code: "handed_off", args: { ...reply.args, session: session.id, until: expiresAt } },
    sessionId: session.id,
  };
}

function notDone(reason: string): Commanded {
  return { reply: { code: "not_done", args: { reason } } };
}

/** R6: one's own sessions only; what a room said is the room's, and what one person said never goes there. */
function resume(
  admit: Admit,
  conversation: ConversationRecord,
  { sessionId, who }: { sessionId: string; who: Authority },
): Commanded {
  const { db } = admit;
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
  leaveForeignSessions(admit, conversation, "resumed");
  if (isHome) goOnIn(admit, conversation, session, "resumed");
  else {
    reopenSession(admit, sessionRecord(db, session.id)!);
    setBinding(admit, conversation, {
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

/** R6: the binding of a bound chat (H9), else the later of the last turn and the last reset. */
function undo(admit: Admit, conversation: ConversationRecord): Commanded {
  const { db, now } = admit;
  const current = conversation.current_session === null ? undefined : sessionRecord(db, conversation.current_session);
  const isBusy =
    db.get("SELECT 1 FROM turn WHERE conversation_id = ? AND state IN('queued','running') LIMIT 1", conversation.id) !==
      undefined ||
    (current !== undefined && hasOpenTurn(db, current.id));
  if (isBusy) return notDone("undo_busy");
  const bound = bindingsOf(db, conversation.id).find((binding) => bindingState(bindingOf(binding), now) === "valid");
  if (bound !== undefined) {
    leaveForeignSessions(admit, conversation);
    return undone({ what: "binding", session: bound.session_id });
  }
  if (current === undefined) return notDone("undo_nothing");
  const last = lastStandingTurn(admit, current.id);
  if (last !== null) {
    takeBack(admit, current, last);
    return undone({ what: "turn", text: wordsOf(admit, last), session: current.id });
  }
  const parent = current.parent_id === null ? undefined : sessionRecord(db, current.parent_id);
  if (parent === undefined) return notDone("undo_nothing");
  goOnIn(admit, conversation, parent, "undone");
  return { ...undone({ what: "reset", session: parent.id }), sessionId: parent.id };
}

function undone(args: Notice["args"]): Commanded {
  return { reply: { code: "undone", args } };
}

function lastStandingTurn({ db }: Admit, sessionId: string): number | null {
  const row = db.get<{ turn_id: number }>(
    "SELECT turn_id FROM entry WHERE session_id = ? AND turn_id IS NOT NULL AND coalesce(mark, '') <> 'undone' ORDER BY seq DESC LIMIT 1",
    sessionId,
  );
  return row?.turn_id ?? null;
}

function wordsOf({ db }: Admit, turnId: number): string {
  const first = db.get<{ body: string }>(
    "SELECT m.body FROM intake i JOIN message m ON m.id = i.message_id WHERE i.turn_id = ? ORDER BY m.id LIMIT 1",
    turnId,
  );
  return titleOf(first?.body ?? "");
}

/** The entries stay, marked; the agent is opened anew and is told only what stands. */
function takeBack(admit: Admit, session: SessionRecord, turnId: number): void {
  const { db } = admit;
  db.run("UPDATE entry SET mark = 'undone' WHERE session_id = ? AND turn_id = ?", session.id, turnId);
  db.run("UPDATE runtime_state SET ref = NULL WHERE session_id = ?", session.id);
  admit.rewound.push(session.id);
  if (session.parent_id === null || lastStandingTurn(admit, session.id) !== null) return;
  // The turn that was told of the reset is gone: the next one is told again (R5).
  if (db.get("SELECT 1 FROM note WHERE session_id = ? AND code = 'session_reset'", session.id) !== undefined) return;
  const opened = db.get<{ opened_by: string; opened_at: number }>(
    "SELECT opened_by, opened_at FROM span WHERE session_id = ? AND n = 1",
    session.id,
  )!;
  addNote(db, session.id, "session_reset", {
    reason: opened.opened_by,
    previous: session.parent_id,
    endedAt: opened.opened_at,
  });
}

/** The session this conversation speaks in: its own, or one it is bound to whose owner asks. */
function entitle(
  { db, now }: Admit,
  conversation: ConversationRecord,
  { event, title, who }: { event: CommandEvent; title: string; who: Authority },
): Commanded {
  const bound = bindingsOf(db, conversation.id).find((binding) => bindingState(bindingOf(binding), now) === "valid");
  const { rules } = event;
  const configured = rules.defaultSession === undefined ? undefined : sessionRecord(db, rules.defaultSession);
  const fallback = isFallback(configured, conversation, { db, rules }) ? configured.id : conversation.current_session;
  const id = bound?.session_id ?? fallback;
  const session = id === null ? undefined : sessionRecord(db, id);
  if (session === undefined) return notDone("title_nothing");
  const isOwn = session.home === conversation.id;
  if (!isOwn && (session.owner_person === null || session.owner_person !== who.personId))
    return notDone("title_elsewhere");
  db.run("UPDATE session SET title = ? WHERE id = ?", title, session.id);
  return { reply: { code: "titled", args: { session: session.id, title } } };
}
