import { vi } from "vitest";
import { run } from "../../src/cli/run.ts";

export interface Called {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A command as from a shell, in this process. */
export async function tertulia(...argv: string[]): Promise<Called> {
  const written = { out: "", err: "" };
  const capture = (stream: NodeJS.WriteStream, to: "out" | "err") =>
    vi.spyOn(stream, "write").mockImplementation((chunk) => {
      written[to] += String(chunk);
      return true;
    });
  const spies = [capture(process.stdout, "out"), capture(process.stderr, "err")];
  const before = process.exitCode;
  process.exitCode = undefined;
  try {
    await run(argv);
    return { code: Number(process.exitCode ?? 0), ...written };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
