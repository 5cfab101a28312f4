import type { Authority } from "../../../conversation/person.ts";
import type { AdmitOutcome, CommandEvent } from "../../events.ts";
import { addNotice } from "../deliveries.ts";
import { addMessage } from "../messages.ts";
import { conversationRecord } from "../records.ts";
import { commandFault } from "../rights.ts";
import { policyOf } from "../route.ts";
import type { TurnRecord } from "../rows.ts";
import { cancel } from "../turn-ending.ts";
import { type Admission, outcomeOf, type Spoken } from "./admission.ts";
import { clearBindings } from "./bindings.ts";
import { takeBackWaiting } from "./change.ts";
import { addIntake, placeOfEvent } from "./conversations.ts";
import { enqueue } from "./enqueue.ts";
import { refuseHurry } from "./limits.ts";
import {
  type Commanded,
  type Effect,
  entitle,
  handOff,
  notDone,
  resume,
  switchRuntime,
  undo,
} from "./session-commands.ts";
import { leaveForeignSessions, resetSession } from "./sessions.ts";

/** Carries a command out and answers it in the same transaction; it overtakes what waits, and no agent sees it. */
export function admitCommand(admission: Admission, spoken: Spoken<CommandEvent>): AdmitOutcome {
  const { db, now, claim, consequences } = admission;
  const { event, conversation, messageId } = spoken;
  const refused = refuseHurry(admission, spoken, "command");
  if (refused !== null) return { ...outcomeOf(admission, spoken), ...refused };
  addIntake(db, { conversationId: conversation.id, messageId, fate: "answered", reason: "command" });
  const done = carryOut(admission, spoken);
  const [reply, ...more] = addNotice(db, { target: event.target, messageId, notice: done.reply, now }, claim);
  consequences.notices.push(...more);
  const first = done.first === undefined || done.first.kind === "refused" ? null : done.first;
  return {
    ...outcomeOf(admission, spoken),
    kind: "commanded",
    sessionId: done.sessionId ?? conversation.current_session,
    reply: reply!,
    turnId: first?.turnId ?? null,
    begun: first?.begun ?? null,
    signal: done.signal ?? null,
  };
}

function carryOut(admission: Admission, spoken: Spoken<CommandEvent>): Commanded {
  const { event, conversation, who } = spoken;
  const { effect, reply } = event;
  const takenBack = effect.kind === "undo" ? takeBackWaiting(admission, conversation, event.speaker.author) : null;
  if (takenBack !== null) return { reply: takenBack };
  const fault = commandFault(admission.db, conversation, { effect, who });
  if (fault !== null) return notDone(fault);
  switch (effect.kind) {
    case "none":
      return { reply };
    case "reset":
      return reset(admission, spoken, effect);
    case "stop":
      return stop(admission, spoken);
    case "answer":
      return answer(admission, spoken, effect);
    case "resume":
      return resume(admission, spoken, effect.sessionId);
    case "undo":
      return undo(admission, conversation);
    case "title":
      return entitle(admission, spoken, effect.title);
    case "policy":
      return setPolicy(admission, spoken, effect);
    case "home":
      return setHome(admission, spoken);
    case "runtime":
      return switchRuntime(admission, spoken, effect);
    case "bind":
      return handOff(admission, spoken, effect);
    case "unbind":
      return { reply: { code: "handoff_cleared", args: { had: clearBindings(admission, conversation) } } };
  }
}

function reset(admission: Admission, spoken: Spoken<CommandEvent>, { firstMessage }: Effect<"reset">): Commanded {
  const { db, now } = admission;
  const { event, conversation } = spoken;
  leaveForeignSessions(admission, conversation);
  const sessionId = resetSession(admission, conversation, "new");
  db.run("UPDATE session SET last_human_at = ? WHERE id = ?", now, sessionId);
  const args = { ...event.reply.args, session: sessionId, previous: conversation.current_session };
  const done = { reply: { code: event.reply.code, args }, sessionId };
  if (firstMessage === undefined) return done;
  const messageId = addMessage(db, placeOfEvent(db, conversation, event), {
    author: event.speaker.author,
    body: firstMessage,
    now,
    saidAt: event.saidAt,
    source: JSON.stringify(event.source),
  });
  const first = enqueue(admission, {
    ...spoken,
    event: { ...event, text: firstMessage },
    conversation: conversationRecord(db, conversation.id),
    messageId,
  });
  return { ...done, first };
}

function stop({ db }: Admission, { event, conversation }: Spoken<CommandEvent>): Commanded {
  const running = db.get<TurnRecord>(
    "SELECT * FROM turn WHERE conversation_id = ? AND state = 'running'",
    conversation.id,
  );
  const reply = { code: event.reply.code, args: { ...event.reply.args, found: running !== undefined } };
  if (running === undefined) return { reply };
  cancel(db, running.id, "stopped");
  return { reply, signal: { kind: "stop", turnId: running.id, sessionId: running.session_id } };
}

/** Answers a question of a running turn: the turn's own person may, and the owner (H12). */
function answer(
  { db }: Admission,
  { event, conversation, who }: Spoken<CommandEvent>,
  effect: Effect<"answer">,
): Commanded {
  const turn = db.get<TurnRecord>(
    "SELECT * FROM turn WHERE id = ? AND conversation_id = ? AND state = 'running'",
    effect.turnId,
    conversation.id,
  );
  if (turn === undefined) return notDone("answer_late");
  const { personId } = JSON.parse(turn.authority) as Authority;
  const isTheirs = who.role === "owner" || (personId !== undefined && personId === who.personId);
  if (!isTheirs) return notDone("answer_forbidden");
  return { reply: event.reply, signal: { ...effect, sessionId: turn.session_id } };
}

function setPolicy(
  { db }: Admission,
  { event, conversation }: Spoken<CommandEvent>,
  { policy }: Effect<"policy">,
): Commanded {
  const override = policy === null ? null : JSON.stringify(policy);
  db.run(
    "UPDATE conversation SET reset_override = ?, reset_policy = ? WHERE id = ?",
    override,
    JSON.stringify(policyOf({ ...conversation, reset_override: override }, event.rules)),
    conversation.id,
  );
  return { reply: event.reply };
}

function setHome({ db, now }: Admission, { event, conversation, who }: Spoken<CommandEvent>): Commanded {
  const { platform } = event.source;
  db.run(
    `INSERT INTO home(agent, platform, conversation_id, set_by, at) VALUES(?, ?, ?, ?, ?)
     ON CONFLICT(agent, platform) DO UPDATE SET conversation_id = excluded.conversation_id, set_by = excluded.set_by, at = excluded.at`,
    conversation.agent,
    platform,
    conversation.id,
    who.personId ?? "",
    now,
  );
  return { reply: { code: event.reply.code, args: { ...event.reply.args, platform } } };
}
