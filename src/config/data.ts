/** Plain data, as configuration is. */

export function valueAt(tree: unknown, path: readonly string[]): unknown {
  let value = tree;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Without the absent fields: they stay absent instead of being undefined. */
export function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}

/** Nobody is found under `constructor`. */
export function withoutPrototype<T extends object>(map: T): Readonly<T> {
  return Object.assign(Object.create(null), map);
}

/** A map without a prototype. */
export function table<K extends string, V, W>(
  entries: Readonly<Partial<Record<K, V>>>,
  change: (value: V, name: K) => W,
): string extends K ? Record<string, W> : Partial<Record<K, W>> {
  const changed = Object.entries<V | undefined>(entries).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, change(value, name as K)] as const],
  );
  return withoutPrototype(Object.fromEntries(changed)) as ReturnType<typeof table<K, V, W>>;
}

export type DeepReadonly<T> = T extends readonly (infer E)[]
  ? readonly DeepReadonly<E>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;

export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export function given(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}

export function numeral(value: string | number | undefined): string | number | undefined {
  return typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
}
