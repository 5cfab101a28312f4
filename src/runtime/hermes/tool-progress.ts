import { z } from "zod";
import type { TurnEvent } from "../runtime.ts";
import type { OwnEvent } from "../wire/completion-stream.ts";

/** COMPAT: an older Hermes gives neither id nor status, and tells only that a tool begins. */
const shape = z.object({
  tool: z.string(),
  label: z.string().nullish(),
  toolCallId: z.string().nullish(),
  status: z.string().nullish(),
});

/** Null for an event of another kind. */
export function readToolProgress({ name, data }: OwnEvent): (TurnEvent & { type: "tool" }) | null {
  if (name !== "hermes.tool.progress") return null;
  const { data: said } = shape.safeParse(data);
  // What its agent tells itself is no tool.
  if (said === undefined || said.tool.startsWith("_")) return null;
  const state = said.status === "completed" ? "done" : said.status === "failed" ? "failed" : "running";
  return { type: "tool", id: said.toolCallId ?? said.tool, title: said.label ?? said.tool, state };
}
