import type { Authority, Role } from "../store/store.ts";

const RANK: Readonly<Record<Role, number>> = { guest: 0, member: 1, owner: 2 };

/** The least of two authors' rights; a person is named only while all authors are that one person. */
export function leastAuthority(a: Authority, b: Authority): Authority {
  const role = RANK[a.role] <= RANK[b.role] ? a.role : b.role;
  return a.personId !== undefined && a.personId === b.personId ? { role, personId: a.personId } : { role };
}

/** Whether rights are at least those of a turn (T5 steer, H12). */
export function isAtLeast(authority: Authority, required: Authority): boolean {
  return RANK[authority.role] >= RANK[required.role];
}
