import { createHmac } from "node:crypto";

/** How ids are shown to the model: as they are, or as stable stand-ins (C5). Routing never sees a stand-in. */
export interface IdMask {
  user(platform: string, id: string): string;
  chat(platform: string, id: string): string;
  thread(platform: string, id: string): string;
  /** Six characters that tell people of one name apart. Says nothing about the id. */
  tag(id: string): string;
  /** Whether ids of this platform are replaced. */
  hides(platform: string): boolean;
}

export interface IdMaskOptions {
  readonly redactPii: boolean;
  /** Keys the hashes: without it nobody can find an id by trying all there are. */
  readonly secret: string;
}

/** Their mentions need the raw id. */
const EXEMPT: readonly string[] = ["discord", "slack"];

export function createIdMask({ redactPii, secret }: IdMaskOptions): IdMask {
  const hash = (kind: string, id: string): string =>
    createHmac("sha256", secret).update(`${kind}\0${id}`).digest("hex").slice(0, 12);
  const hides = (platform: string): boolean => redactPii && !EXEMPT.includes(platform);
  const shown =
    (kind: "user" | "chat" | "thread") =>
    (platform: string, id: string): string =>
      hides(platform) ? `${kind}_${hash(kind, id)}` : id;
  return {
    user: shown("user"),
    chat: shown("chat"),
    thread: shown("thread"),
    tag: (id) => hash("tag", id).slice(0, 6),
    hides,
  };
}
