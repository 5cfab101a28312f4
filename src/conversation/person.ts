import type { Author } from "../message/message.ts";

export type Role = "owner" | "member" | "guest";

/** A person as the doors know him: the caller of an API, the user of a terminal. */
export interface Person {
  readonly id: string;
  readonly role: Role;
  readonly name?: string;
}

/** Who speaks, with the rights the gateway found for him (S3). */
export interface Speaker {
  readonly author: Author;
  /** Absent: looked up by the source's identity; still none: a guest without a person. */
  readonly person?: { readonly id: string; readonly role: Role };
}

/** The least of the authors' rights; `personId` only when all authors are one person. */
export interface Authority {
  readonly role: Role;
  readonly personId?: string;
}

export function speakerOf(person: Person): Speaker {
  const name = person.name === undefined ? {} : { name: person.name };
  return { author: { kind: "person", id: person.id, ...name }, person: { id: person.id, role: person.role } };
}

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
