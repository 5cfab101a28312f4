import { describe, expect, test } from "vitest";
import { bindingFault, bindingState, isAmongOwn } from "./binding.ts";

test.each([
  ["pinned, however old", { sentAt: 0, expiresAt: null }, 1e12, "valid"],
  ["just sent", { sentAt: 1_000_000, expiresAt: 2_000_000 }, 1_000_000, "valid"],
  ["the last moment", { sentAt: 1_000_000, expiresAt: 2_000_000 }, 1_999_999, "valid"],
  ["at its end", { sentAt: 1_000_000, expiresAt: 2_000_000 }, 2_000_000, "expired"],
  ["a minute from the future", { sentAt: 1_060_000, expiresAt: 2_000_000 }, 1_000_000, "valid"],
  ["more than a minute from the future", { sentAt: 1_060_001, expiresAt: 2_000_000 }, 1_000_000, "from_the_future"],
] as const)("H2 H4 a binding: %s", (_, binding, now, state) => {
  expect(bindingState(binding, now)).toBe(state);
});

describe("H7 H9 H10 why a bound session cannot be spoken in", () => {
  const binding = { setBy: "ann", shared: false };
  const conversation = { agent: "nova", personId: "ann", isShared: false, othersRead: false };
  const session = { agent: "nova", ownerPerson: "ann", endedAt: null, suspended: null };
  test.each([
    ["it can", binding, conversation, session, null],
    ["it is not there", binding, conversation, null, "gone"],
    ["it has ended", binding, conversation, { ...session, endedAt: 1 }, "ended"],
    ["it is set aside", binding, conversation, { ...session, suspended: "overflow" }, "ended"],
    ["another agent's", binding, conversation, { ...session, agent: "mohe" }, "agent_changed"],
    ["another owner's", binding, conversation, { ...session, ownerPerson: "bob" }, "owner_changed"],
    ["others read along", binding, { ...conversation, personId: null, othersRead: true }, session, "not_shared"],
    [
      "others read along, and may",
      { ...binding, shared: true },
      { ...conversation, personId: null, othersRead: true },
      session,
      null,
    ],
    ["another person's chat", binding, { ...conversation, personId: "bob" }, session, "not_shared"],
  ] as const)("%s", (_, bound, at, of, fault) => {
    expect(bindingFault(bound, at, of)).toBe(fault);
  });

  test("a session that nobody owns is never among its own in a room", () => {
    expect(isAmongOwn({ personId: null, isShared: false, othersRead: false }, { ownerPerson: null })).toBe(false);
    expect(isAmongOwn({ personId: null, isShared: false, othersRead: false }, { ownerPerson: "ann" })).toBe(true);
    expect(isAmongOwn({ personId: "bob", isShared: true, othersRead: true }, { ownerPerson: "ann" })).toBe(true);
  });
});
