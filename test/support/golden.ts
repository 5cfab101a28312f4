import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { expect } from "vitest";

/**
 * Compares with a file under test/golden. It is written anew only where a test says so in its code, and then the test fails, so that
 * nobody leaves it there.
 */
export function expectGolden(name: string, text: string, options: { update: boolean } = { update: false }): void {
  const file = new URL(`../golden/${name}`, import.meta.url);
  if (options.update) {
    writeFileSync(file, text);
    expect.fail(`${name} was written: take the update away again`);
  }
  if (!existsSync(file)) expect.fail(`there is no test/golden/${name}`);
  expect(text).toBe(readFileSync(file, "utf8"));
}
