import { originOf, rulesFor } from "../../config/config.ts";
import { describePolicy, isTimeZone, nextResetAt, type ResetPolicy } from "../../conversation/reset-policy.ts";
import { when } from "../../util/when.ts";
import { type CommandAnswer, type CommandContext, onlySays } from "./command.ts";
import { sessionOf } from "./session-of.ts";

const LONGEST_MINUTES = 525_600;
const UNIT_MINUTES: Readonly<Record<string, number>> = { m: 1, min: 1, h: 60, d: 1_440 };
const USAGE =
  "/autoreset status, off, default, idle TIME (such as 30m, 2h or 3d), or daily HOUR [ZONE] (such as daily 04:00 Europe/Berlin).";

/** R1: the chat's own reset policy, the highest layer. */
export async function autoreset(context: CommandContext): Promise<CommandAnswer> {
  const [word = "status", ...rest] = context.args.split(/\s+/).filter((part) => part !== "");
  const { policy: base } = policyHere(context);
  switch (word.toLowerCase()) {
    case "status":
      return onlySays(await statusOf(context));
    case "off":
      return set(context, { ...base, mode: "none" });
    case "default":
      return set(context, null);
    case "idle":
      return idle(context, base, rest);
    case "daily":
      return daily(context, base, rest);
    default:
      return onlySays(`There is no /autoreset ${word}. It takes: ${USAGE}`);
  }
}

function set(context: CommandContext, policy: ResetPolicy | null): CommandAnswer {
  const text =
    policy === null
      ? `The configured policy holds here again: ${describePolicy(configured(context).policy)}.`
      : `Set here: ${describePolicy(policy)}.`;
  return { effect: { kind: "policy", policy }, reply: { code: "policy_set", args: { text } } };
}

function idle(context: CommandContext, base: ResetPolicy, [time = ""]: readonly string[]): CommandAnswer {
  const [, count, unit] = /^(\d{1,6})(m|min|h|d)$/i.exec(time) ?? [];
  const minutes = Number(count) * (UNIT_MINUTES[unit?.toLowerCase() ?? ""] ?? 0);
  if (!(minutes >= 1 && minutes <= LONGEST_MINUTES))
    return onlySays(`${JSON.stringify(time)} is no time for it: from 1m to 365d, such as 30m, 2h or 3d.`);
  return set(context, { ...base, mode: "idle", idleMinutes: minutes });
}

function daily(context: CommandContext, base: ResetPolicy, [hour = "", zone]: readonly string[]): CommandAnswer {
  const [, digits] = /^(\d{1,2})(?::00)?$/.exec(hour) ?? [];
  const atHour = Number(digits);
  if (!(atHour >= 0 && atHour <= 23))
    return onlySays(`${JSON.stringify(hour)} is no hour for it: full hours from 00:00 to 23:00.`);
  if (zone !== undefined && !isTimeZone(zone))
    return onlySays(`${JSON.stringify(zone)} is no time zone: an IANA name is needed, such as Europe/Berlin.`);
  return set(context, { ...base, mode: "daily", atHour, timezone: zone ?? base.timezone });
}

function configured({ config, agent, source, key }: CommandContext): { policy: ResetPolicy; from: string } {
  const { rules, from } = rulesFor(config, { agent, source, key });
  const path = from.reset ?? "";
  return { policy: rules.reset, from: `${path} (${originOf(config, path)})` };
}

function policyHere(context: CommandContext): { policy: ResetPolicy; from: string } {
  const override = context.conversation?.resetOverride ?? null;
  return override === null ? configured(context) : { policy: override, from: "/autoreset in this chat" };
}

async function statusOf(context: CommandContext): Promise<string> {
  const { config, conversation, reader, now } = context;
  const { policy, from } = policyHere(context);
  const lines = [`Reset policy here: ${describePolicy(policy)}.`, `It comes from ${from}.`];
  const own = conversation?.currentSession == null ? null : await reader.session(conversation.currentSession);
  if (own === null) return lines.join("\n");
  const at = nextResetAt(policy, own.lastHumanAt ?? own.openedAt);
  if (at !== null) {
    lines.push(
      at < now
        ? "It acts with the next message."
        : `If nobody writes, it acts with the first message after ${when(at, config.timezone)} (${config.timezone}).`,
    );
  }
  const spoken = await sessionOf(context);
  if (spoken !== null && spoken.home !== own.home)
    lines.push("This door speaks in another door's session now; there the policy of its home holds.");
  return lines.join("\n");
}
