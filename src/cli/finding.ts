import { asTertuliaError } from "../errors.ts";

/** What was looked at, and what was found. `unusable`: the state or the machine cannot carry a gateway. */
export interface Finding {
  readonly check: string;
  readonly state: "ok" | "warn" | "fail" | "unusable";
  readonly text: string;
  readonly remedy?: string;
}

/** A check that threw: the sentence and remedy of the error. */
export function failed(check: string, cause: unknown): Finding {
  const { message, remedy, exitCode } = asTertuliaError(cause);
  return { check, state: exitCode === 3 ? "unusable" : "fail", text: message, remedy };
}
