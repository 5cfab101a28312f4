/** A binding: "this conversation currently speaks in that session". Pure rules, applied inside `admit`. */

/** A live binding survives clock steps back of up to a minute; one from further in the future is void (H2). */
const CLOCK_TOLERANCE_MS = 60_000;

export type BindingState = "valid" | "expired" | "from_the_future";

/** H2: valid while −60 s ≤ now − sentAt < ttl. A pinned binding does not expire (H4). */
export function bindingState(binding: { sentAt: number; expiresAt: number | null }, now: number): BindingState {
  if (binding.expiresAt === null) return "valid";
  if (now - binding.sentAt < -CLOCK_TOLERANCE_MS) return "from_the_future";
  return now < binding.expiresAt ? "valid" : "expired";
}

/** Why a bound session cannot be spoken in any more, or null (H7, H9, H10). */
export function bindingFault(
  binding: { setBy: string; shared: boolean },
  conversation: { agent: string } & Readers,
  session: { agent: string; ownerPerson: string | null; endedAt: number | null; suspended: string | null } | null,
): "gone" | "ended" | "owner_changed" | "agent_changed" | "not_shared" | null {
  if (session === null) return "gone";
  if (session.endedAt !== null || session.suspended !== null) return "ended";
  if (session.agent !== conversation.agent) return "agent_changed";
  if (session.ownerPerson !== binding.setBy) return "owner_changed";
  if (!binding.shared && !isAmongOwn(conversation, session)) return "not_shared";
  return null;
}

/** Who reads what is said in a conversation. */
export interface Readers {
  /** Of a direct chat. */
  readonly personId: string | null;
  /** Others may read along, as was said. */
  readonly isShared: boolean;
  /** Of a room: somebody but the session's owner and our agents is known to be there. */
  readonly othersRead: boolean;
}

/** True where nobody but the owner of the session reads along; elsewhere a binding has to be shared explicitly (H7). */
export function isAmongOwn(
  { personId, isShared, othersRead }: Readers,
  session: { ownerPerson: string | null },
): boolean {
  if (isShared) return true;
  if (personId !== null) return personId === session.ownerPerson;
  return session.ownerPerson !== null && !othersRead;
}
