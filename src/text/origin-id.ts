/**
 * What a delivery is known again by, on a platform that repeats it to its author (G3). Deliveries are counted from 1 in each state
 * file, and rooms outlive state files: the time makes it one delivery of one file.
 */

const ORIGIN_ID = /^tertulia-(\d{1,15})-(\d{1,15})$/;

export interface OriginOf {
  readonly id: number;
  readonly createdAt: number;
}

export function originIdOf({ id, createdAt }: OriginOf): string {
  return `tertulia-${id}-${createdAt}`;
}

/** Null for any other text. */
export function readOriginId(text: string): OriginOf | null {
  const [, id, createdAt] = ORIGIN_ID.exec(text) ?? [];
  return id === undefined ? null : { id: Number(id), createdAt: Number(createdAt) };
}
