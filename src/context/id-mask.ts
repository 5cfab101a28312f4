import { createHmac } from "node:crypto";
import { accountKey } from "../conversation/gate.ts";
import type { Platform } from "../message/source.ts";
import { tellsId, withoutContacts } from "../text/contacts.ts";

/** IdMask: shows ids to the model as they are, or as stable stand-ins (C5). Routing never sees a stand-in. */
export interface IdMask {
  user(platform: string, id: string): string;
  chat(platform: string, id: string): string;
  thread(platform: string, id: string): string;
  /**
   * The name of the user with that id. A name that is or contains the id, a telephone number or an address would reveal them: it is
   * replaced by the name that the owner has given, or else by the stand-in for the id.
   */
  name(platform: string, name: string, id: string): string;
  /** The name of a chat, by the same rule. */
  chatName(platform: string, name: string, id: string): string;
  /** A text that somebody chose, with stand-ins for the telephone numbers and addresses in it. */
  text(platform: string, text: string): string;
  /** Six characters that tell people of one name apart. They reveal nothing of the id. */
  tag(id: string): string;
  /** Whether ids of this platform are replaced. */
  hides(platform: string): boolean;
}

interface IdMaskOptions {
  readonly redactPii: boolean;
  /** The key of the hashes: without it nobody can find an id by trying all ids. */
  readonly secret: string;
  /** Names that the owner has given, by person and by account (`accountKey`). */
  readonly names?: ReadonlyMap<string, string>;
}

/** Platforms whose mentions need the real id. */
const EXEMPT: readonly string[] = ["discord", "slack"];

export function createIdMask({ redactPii, secret, names }: IdMaskOptions): IdMask {
  const hash = (kind: string, id: string): string =>
    createHmac("sha256", secret).update(`${kind}\0${id}`).digest("hex").slice(0, 12);
  const hides = (platform: string): boolean => redactPii && !EXEMPT.includes(platform);
  const shown =
    (kind: "user" | "chat" | "thread") =>
    (platform: string, id: string): string =>
      hides(platform) ? `${kind}_${hash(kind, id)}` : id;
  const given = (platform: string, id: string): string | undefined =>
    [names?.get(id), names?.get(accountKey(platform as Platform, id))].find(
      (name) => name !== undefined && !tellsId(name, id),
    );
  const user = shown("user");
  const chat = shown("chat");
  return {
    user,
    chat,
    thread: shown("thread"),
    name: (platform, name, id) =>
      hides(platform) && tellsId(name, id) ? (given(platform, id) ?? user(platform, id || name)) : name,
    chatName: (platform, name, id) => (hides(platform) && tellsId(name, id) ? chat(platform, id || name) : name),
    text: (platform, text) => (hides(platform) ? withoutContacts(text, (contact) => user(platform, contact)) : text),
    tag: (id) => hash("tag", id).slice(0, 6),
    hides,
  };
}
