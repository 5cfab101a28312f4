import { describe, expect, test } from "vitest";
import type { Role } from "./person.ts";
import { type Deed, isShared, rightFault } from "./rights.ts";

const ROLES: readonly Role[] = ["guest", "member", "owner"];
const least = (deed: Deed, isShared: boolean): Role | undefined =>
  ROLES.find((role) => rightFault(deed, role, { isShared }) === null);

describe("F-ROOM-04 F-SEC-10 A8 every deed of a command, by role and place", () => {
  test.each<[Deed, Role, Role]>([
    ["stop", "guest", "guest"],
    ["reset", "member", "guest"],
    ["resume", "member", "guest"],
    ["undo", "member", "guest"],
    ["title", "member", "guest"],
    ["bind", "member", "guest"],
    ["unbind", "member", "guest"],
    ["policy", "owner", "guest"],
    ["home", "owner", "owner"],
    ["runtime", "owner", "owner"],
  ])("A8 %s: where several speak at least a %s, alone a %s", (deed, shared, alone) => {
    expect([least(deed, true), least(deed, false)]).toEqual([shared, alone]);
  });

  test.each<[Role, Role[], boolean]>([
    ["guest", ["guest"], true],
    ["guest", ["guest", "member"], false],
    ["guest", ["owner"], false],
    ["member", ["guest", "member"], true],
    ["member", ["member", "owner"], false],
    ["owner", ["guest", "member", "owner"], true],
    ["guest", [], true],
  ])("A8 a %s stops a turn of %j: %s", (role, authors, may) => {
    expect(rightFault("stop", role, { isShared: true, authors }) === null).toBe(may);
    expect(rightFault("stop", role, { isShared: false, authors })).toBeNull();
  });

  test("A8 what would end a turn of somebody higher waits, whatever else one may", () => {
    expect(rightFault("reset", "member", { isShared: true, authors: ["owner"] })).toBe("outranked");
    expect(rightFault("resume", "member", { isShared: true, authors: ["guest", "owner"] })).toBe("outranked");
    expect(rightFault("reset", "guest", { isShared: true, authors: ["guest"] })).toBe("reset_forbidden");
    expect(rightFault("undo", "member", { isShared: true, authors: ["owner"] })).toBeNull();
  });

  test.each([
    ["agent:main:xmpp@muc:group:room%40muc", true],
    ["agent:main:discord:group:G", true],
    ["agent:main:telegram:group:-100:thread:17585", true],
    ["agent:main:discord:group:G:user:alice", false],
    ["agent:main:telegram:group:-100:thread:17585:user:42", false],
    ["agent:main:telegram:dm:99", false],
    ["agent:main:xmpp@muc:dm:room%40muc%2Fcarol", false],
    ["agent:main:person:bob", false],
    ["agent:main:console:dm:owner%2Fmain", false],
  ])("A8 %s is shared: %s", (key, shared) => expect(isShared(key)).toBe(shared));
});
