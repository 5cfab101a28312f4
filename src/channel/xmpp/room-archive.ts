import type { Archive, Archived, From, Page } from "./archive.ts";
import { StanzaError } from "./iq-requests.ts";
import { readMessage } from "./read-stanza.ts";

/** More of one address than a page holds is never asked for; a message may share its time with the page's first and last. */
const AT_THE_EDGES = 20;

/**
 * RoomArchive: what a room keeps, and who wrote it as far as the archive itself knows. The address in an archived message is proof of
 * nothing (G8): a room that hid addresses has kept what the author wrote in. So the archive is asked what that address has said
 * (XEP-0313, `with`), and only what it finds then is that author's.
 */
export class RoomArchive {
  readonly #archive: Archive;
  /** The service sets an id of the author's on every message: nothing else is needed then. */
  readonly #hasOccupantIds: () => boolean;

  constructor(archive: Archive, { hasOccupantIds }: { readonly hasOccupantIds: () => boolean }) {
    this.#archive = archive;
    this.#hasOccupantIds = hasOccupantIds;
  }

  /** Rejects like the archive. */
  async page(of: string, from: From, max: number): Promise<Page> {
    const page = await this.#archive.page(of, from, max);
    if (this.#hasOccupantIds()) return page;
    return { ...page, messages: await this.#vouched(of, page.messages) };
  }

  async #vouched(of: string, messages: readonly Archived[]): Promise<readonly Archived[]> {
    const claims = new Map(
      messages.flatMap(({ id, message }) => {
        const { claimedJid } = readMessage(message);
        return claimedJid === undefined ? [] : [[id, claimedJid] as const];
      }),
    );
    if (claims.size === 0) return messages;
    const authors = new Map<string, string>();
    try {
      if (!(await this.#archive.knowsAuthors(of))) return messages;
      const between = { start: messages[0]!.at, end: messages.at(-1)!.at + 1 };
      for (const address of new Set(claims.values())) {
        const { messages: found } = await this.#archive.page(
          of,
          { with: address, ...between },
          messages.length + AT_THE_EDGES,
        );
        // An archive that does not heed the question vouches for nobody.
        if (found.some(({ message }) => readMessage(message).claimedJid !== address)) return messages;
        for (const { id } of found) if (claims.get(id) === address) authors.set(id, address);
      }
    } catch (cause) {
      if (!(cause instanceof StanzaError)) throw cause;
      return messages;
    }
    return messages.map((archived) => {
      const author = authors.get(archived.id);
      return author === undefined ? archived : { ...archived, author };
    });
  }
}
