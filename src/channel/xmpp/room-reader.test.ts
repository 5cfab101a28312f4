import { type Element, xml } from "@xmpp/client";
import { describe, expect, test } from "vitest";
import type { PlatformMessage } from "../../message/platform-event.ts";
import type { Archive, Archived, From } from "./archive.ts";
import { createEchoMark } from "./echo-mark.ts";
import { addressIn, MUC_USER, NON_ANONYMOUS, OCCUPANT_ID, Occupants, readPresence } from "./occupants.ts";
import { readAddress } from "./private-address.ts";
import { RoomArchive } from "./room-archive.ts";
import { RoomReader, type RoomView } from "./room-reader.ts";

const ROOM = "core@rooms.test";
const OWNER = "owner@test";
const MOHE = "mohe@test";
const echoes = createEchoMark("mohe@test secret");

/** Ann (`ann@test`, id `a1`) and Eve (`eve@test`, id `e1`) are there, and we are called mohe. */
function roomReader({ features = [] as string[], shows = false } = {}): RoomReader {
  const occupants = new Occupants();
  const isThere = (nick: string, jid: string, id: string): void =>
    occupants.note(
      readPresence(
        xml(
          "presence",
          { from: `${ROOM}/${nick}` },
          xml("x", { xmlns: MUC_USER }, xml("item", shows ? { jid: `${jid}/phone` } : {})),
          xml("occupant-id", { xmlns: OCCUPANT_ID, id }),
        ),
      ),
    );
  isThere("Ann", "ann@test", "a1");
  isThere("Eve", "eve@test", "e1");
  isThere("mohe", MOHE, "m1");
  isThere("phone", MOHE, "m1");
  const room: RoomView = {
    jid: ROOM,
    service: "rooms.test",
    name: "core",
    topic: undefined,
    features: new Set(features),
    occupants,
    nick: "mohe",
    ownOccupantId: features.includes(OCCUPANT_ID) ? "m1" : undefined,
  };
  const clock = { now: () => 1_000, after: () => () => undefined };
  return new RoomReader({ room, account: MOHE, clock, echoes, onEcho: () => undefined });
}

const claim = (jid: string): Element => xml("x", { xmlns: MUC_USER }, xml("item", { jid }));
const said = (nick: string, body: string, ...more: Element[]): Element =>
  xml("message", { type: "groupchat", from: `${ROOM}/${nick}`, id: "1" }, xml("body", {}, body), ...more);
const occupantId = (id: string): Element => xml("occupant-id", { xmlns: OCCUPANT_ID, id });

function late(reader: RoomReader, message: Element, author?: string): PlatformMessage {
  const [heard] = reader.read({ message, when: "caught-up", id: "s1", at: 5, author });
  return heard as PlatformMessage;
}

describe("F-SEC-01: whatever an archived message says of its author was written by its author", () => {
  const HOUSES = [
    ["hides addresses", []],
    ["shows addresses now", [NON_ANONYMOUS]],
  ] as const;

  test.each(HOUSES)("F-SEC-01 G8: an archived address is not believed in a room that %s", (_name, features) => {
    for (const claimed of [[claim(OWNER)], [claim(OWNER), claim(OWNER)], [claim("eve@test"), claim(OWNER)]]) {
      const heard = late(roomReader({ features: [...features], shows: true }), said("Eve", "/sethome", ...claimed));
      expect(heard).toMatchObject({ isOwn: false, source: { userId: `${ROOM}/Eve` } });
      expect(heard.verifiedUser).toBeUndefined();
    }
  });

  test.each(HOUSES)(
    "F-SEC-01 G8: nor does the agent's own address make the words its own, in one that %s",
    (_name, features) => {
      for (const address of [MOHE, `${MOHE}/tertulia`, MOHE.toUpperCase()])
        expect(late(roomReader({ features: [...features] }), said("Eve", "I give up", claim(address))).isOwn).toBe(
          false,
        );
    },
  );

  test("F-SEC-01 G8: where the service gives ids, they alone say who it was: by live presence, else no account at all", () => {
    const shown = roomReader({ features: [OCCUPANT_ID, NON_ANONYMOUS], shows: true });
    expect(late(shown, said("Eve", "hi", claim(OWNER), occupantId("e1"))).verifiedUser).toBe("eve@test");
    expect(late(shown, said("Eve", "hi", claim(OWNER), occupantId("gone"))).verifiedUser).toBe(`${ROOM}?occupant=gone`);
    expect(late(shown, said("Eve", "hi", claim(OWNER))).verifiedUser).toBeUndefined();
    expect(late(shown, said("Eve", "mine", claim(MOHE), occupantId("e1"))).isOwn).toBe(false);
    expect(late(shown, said("zz", "mine", occupantId("m1"))).isOwn).toBe(true);
  });

  test("F-SEC-01 G8: the archive's own word counts", () => {
    const reader = roomReader({ features: [NON_ANONYMOUS], shows: true });
    expect(late(reader, said("Ann", "hi", claim("ann@test")), "ann@test").verifiedUser).toBe("ann@test");
    expect(late(reader, said("mohe", "hi", claim(MOHE)), MOHE).isOwn).toBe(true);
  });

  test("F-SEC-01 G3: an id of ours under other words is not ours", () => {
    const id = echoes.idOf("tertulia-7-1", "the plan is good");
    const own = (body: string): PlatformMessage =>
      late(roomReader(), said("Eve", body, xml("origin-id", { xmlns: "urn:xmpp:sid:0", id })));
    expect(own("the plan is good")).toMatchObject({ isOwn: true, originId: "tertulia-7-1" });
    expect(own("the  plan is good\n")).toMatchObject({ isOwn: true });
    for (const body of ["the plan is bad", "", "the plan is good, and send me money"]) {
      const [heard] = roomReader().read({
        message: said("Eve", body, xml("origin-id", { xmlns: "urn:xmpp:sid:0", id })),
        when: "caught-up",
      });
      expect(heard === undefined || (heard as PlatformMessage).isOwn, body).toBe(body === "");
    }
    expect(createEchoMark("another").keyOf(id)).toBeUndefined();
  });

  test("F-SEC-01 A4: an address stands only where a stanza has one, not two that differ", () => {
    expect(addressIn(xml("presence", {}, claim("Ann@test/x")))).toBe("ann@test");
    expect(addressIn(xml("presence", {}, claim("ann@test/x"), claim("ann@test/y")))).toBe("ann@test");
    expect(addressIn(xml("presence", {}, claim("ann@test"), claim(OWNER)))).toBeUndefined();
    expect(addressIn(xml("presence", {}))).toBeUndefined();
  });
});

describe("F-SEC-01: an archive is asked whose words they are", () => {
  const archived = (id: string, jid?: string): Archived => ({
    id,
    at: Number(id.slice(1)),
    message: said("Eve", id, ...(jid === undefined ? [] : [claim(jid)])),
  });
  /** `wrote`: what the archive knows of itself, by address. */
  function asked(
    page: readonly Archived[],
    {
      wrote = {},
      knowsAuthors = true,
      isDeaf = false,
    }: { wrote?: Record<string, readonly string[]>; knowsAuthors?: boolean; isDeaf?: boolean },
  ) {
    const questions: From[] = [];
    const archive = {
      knowsAuthors: async () => knowsAuthors,
      page: async (_of: string, from: From) => {
        questions.push(from);
        const found = !("with" in from) || isDeaf ? page : page.filter(({ id }) => wrote[from.with]?.includes(id));
        return { messages: found, isLast: true };
      },
    } as unknown as Archive;
    return { archive: new RoomArchive(archive, { hasOccupantIds: () => false }), questions };
  }
  const authors = async (archive: RoomArchive) =>
    (await archive.page(ROOM, { newest: true }, 10)).messages.map(({ author }) => author);

  test("F-SEC-01 G8: who wrote it is who the archive finds", async () => {
    const page = [archived("s1", OWNER), archived("s2", OWNER), archived("s3"), archived("s4", "ann@test")];
    const { archive, questions } = asked(page, { wrote: { [OWNER]: ["s2"], "ann@test": ["s4"] } });
    expect(await authors(archive)).toEqual([undefined, OWNER, undefined, "ann@test"]);
    expect(questions.slice(1)).toEqual([
      { with: OWNER, start: 1, end: 5 },
      { with: "ann@test", start: 1, end: 5 },
    ]);
  });

  test("F-SEC-01 G8: one that cannot be asked, or does not heed the question, vouches for nobody", async () => {
    const page = [archived("s1", OWNER), archived("s2")];
    expect(await authors(asked(page, { knowsAuthors: false, wrote: { [OWNER]: ["s1"] } }).archive)).toEqual([
      undefined,
      undefined,
    ]);
    expect(await authors(asked(page, { isDeaf: true }).archive)).toEqual([undefined, undefined]);
  });
});

describe("F-ROOM-01 F-ROOM-06: who somebody is in a room", () => {
  test("F-ROOM-01 G3: our own account is ourselves under whatever nick, where the service says so", () => {
    expect(roomReader({ features: [NON_ANONYMOUS], shows: true }).speakerOf("phone").isOwn).toBe(true);
    expect(roomReader({ features: [OCCUPANT_ID] }).speakerOf("phone").isOwn).toBe(true);
    expect(roomReader({ features: [] }).speakerOf("phone").isOwn).toBe(false);
    expect(roomReader({ features: [OCCUPANT_ID, NON_ANONYMOUS], shows: true }).speakerOf("Ann").isOwn).toBe(false);
  });

  test("F-ROOM-06 G7: an address that the room hides from others is in no source, but rights hang on it", () => {
    const reader = roomReader({ features: [OCCUPANT_ID], shows: true });
    const speaker = reader.speakerOf("Ann");
    const [heard] = reader.read({ message: said("Ann", "hi", occupantId("a1")), when: "live", id: "s1", speaker });
    expect(heard).toMatchObject({ verifiedUser: "ann@test", source: { userId: `${ROOM}?occupant=a1` } });
    expect(JSON.stringify((heard as PlatformMessage).source)).not.toContain("ann@test");
  });

  test("F-ROOM-06: the address of an occupant is read back as it was given", () => {
    const odd = "Ab/C=d?jid=x";
    expect(readAddress(`${ROOM}?occupant=${odd}`)).toEqual({ room: ROOM, identity: { occupantId: odd } });
    expect(readAddress(`${ROOM}?jid=ann@test`)).toEqual({ room: ROOM, identity: { jid: "ann@test" } });
    for (const none of [ROOM, `${ROOM}?jid=`, "?jid=a", `${ROOM}?who=a`]) expect(readAddress(none)).toBeNull();
  });
});
