import type { Authority } from "../../../conversation/person.ts";
import type { AdmitOutcome, BindEvent } from "../../events.ts";
import { commandFault } from "../rights.ts";
import { type Admission, duplicate, knownEvent, outcomeIn, Rejection, rememberEvent } from "./admission.ts";
import { clearBindings, namedSession, setBinding } from "./bindings.ts";
import { conversationOfRef } from "./conversations.ts";

/** Binds a conversation to a session, or clears its bindings (H1). */
export function admitBind(admission: Admission, event: BindEvent): AdmitOutcome {
  const { db } = admission;
  if (knownEvent(admission, event) !== undefined) return duplicate(db, null);
  const { change } = event;
  const conversation = conversationOfRef(admission, event.conversation, event.rules);
  const who: Authority = { role: event.by.person?.role ?? "guest" };
  if (change.kind === "clear" && commandFault(db, conversation, { effect: { kind: "unbind" }, who }) !== null)
    throw new Rejection("forbidden", "Several people speak there: the owner or a member takes a handoff back.");
  const session = change.kind === "clear" ? null : namedSession(admission, event, { ...change, conversation });
  rememberEvent(admission, event, null);
  if (change.kind === "clear" || session === null) {
    const had = clearBindings(admission, conversation);
    return { ...outcomeIn(admission, conversation), kind: "cleared", had };
  }
  if (session.home === conversation.id)
    throw new Rejection("request_invalid", "This session is at home in that conversation: it needs no binding.");
  const binding = setBinding(admission, conversation, {
    kind: change.binding,
    sessionId: session.id,
    ttlMs: change.ttlMs,
    by: event.by.person!.id,
    shared: event.share === true,
  });
  return { ...outcomeIn(admission, conversation), kind: "bound", binding };
}
