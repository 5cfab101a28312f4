/**
 * The account's cursor: for each place (a room's address, or "" for the direct chats) the archive's id and time of the last
 * message that is durable.
 */
export interface Mark {
  /** Absent while nothing was in the archive, or where there is none. */
  readonly id?: string;
  /** Epoch ms: what was said before is not caught up where the archive has forgotten the id. */
  readonly at: number;
}

export type Marks = Readonly<Record<string, Mark>>;

/** A cursor that cannot be read is as good as none. */
export function readCursor(cursor: string | null): Marks {
  try {
    const { marks } = JSON.parse(cursor ?? "{}") as { marks?: unknown };
    return isMarks(marks) ? marks : {};
  } catch {
    return {};
  }
}

export function writeCursor(marks: Marks): string {
  return JSON.stringify({ marks });
}

function isMarks(value: unknown): value is Marks {
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).every((mark: Partial<Mark> | null) => typeof mark?.at === "number");
}
