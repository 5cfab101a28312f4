import type { ChannelStatus } from "../channel/channel.ts";
import type { Config, RuntimeConfig } from "../config/config.ts";
import { describeAgent, type RuntimeReport } from "../gateway/runtimes.ts";
import type { ProxyHosts } from "../http/routes/status.ts";
import { describeSpan } from "../util/span.ts";
import { connect } from "./client.ts";
import { type Finding, failed } from "./finding.ts";
import { plural } from "./table.ts";

/** As the running gateway tells of itself. */
interface Status {
  readonly startedAt: number;
  readonly http: Config["http"];
  readonly proxies: ProxyHosts;
  readonly agents: readonly {
    readonly name: string;
    readonly runtime: string;
    readonly kind: RuntimeConfig["kind"];
    readonly model?: string;
  }[];
  readonly warm: readonly { readonly state: string }[];
  readonly runningTurns: number;
  readonly counts: { readonly openTurns: number; readonly openDeliveries: number };
  readonly channels: readonly { readonly account: string; readonly agent: string; readonly status: ChannelStatus }[];
}

/** A gateway that answers, and how it runs its agents. It may have another environment than this command (F-CFG-06). */
export interface RunningGateway {
  readonly findings: readonly Finding[];
  /** Null where it does not say. */
  readonly asRun: {
    readonly http: Config["http"];
    readonly proxies: ProxyHosts;
    readonly kinds: ReadonlyMap<string, RuntimeConfig["kind"]>;
  } | null;
}

export async function lookAtGateway(config: Config, isConfigGood: boolean): Promise<RunningGateway> {
  const check = "gateway";
  try {
    const client = await connect(config);
    const status = await client.get<Status>("/api/status");
    const { runtimes } = await client.get<{ runtimes: readonly RuntimeReport[] }>("/api/runtimes");
    return {
      findings: [
        stateFinding(status),
        ...status.channels.map(accountFinding),
        ...status.agents.map(({ name, runtime }) =>
          agentFinding(
            name,
            runtimes.find((one) => one.name === runtime),
          ),
        ),
        ...(isConfigGood ? status.agents.flatMap((agent) => differenceFinding(config, agent)) : []),
      ],
      asRun: {
        http: status.http,
        proxies: status.proxies,
        kinds: new Map(status.agents.map(({ name, kind }) => [name, kind])),
      },
    };
  } catch (cause) {
    return { findings: [failed(check, cause)], asRun: null };
  }
}

function stateFinding({ startedAt, warm, runningTurns, counts }: Status): Finding {
  const check = "gateway";
  const broken = warm.filter(({ state }) => state === "broken").length;
  const text = [
    `answers, up for ${describeSpan(Date.now() - startedAt)}`,
    `${plural(warm.length - broken, "warm agent")}`,
    `${plural(runningTurns, "turn")} running of ${counts.openTurns} open`,
    `${counts.openDeliveries} to deliver`,
  ].join("; ");
  if (broken === 0) return { check, state: "ok", text };
  const remedy = "They are tried again by themselves; the log says why they failed.";
  return { check, state: "warn", text: `${text}; ${plural(broken, "agent")} broken.`, remedy };
}

export function accountFinding({ account, agent, status }: Status["channels"][number]): Finding {
  const check = `account ${account}`;
  const text = `of ${agent}: ${status.state}`;
  if ("reason" in status) {
    const state = status.state === "fatal" ? "fail" : "warn";
    return { check, state, text: `${text} (${status.reason}).` };
  }
  const { problems = [], hidden = [] } = status;
  const sentences = [...problems, ...hidden];
  if (sentences.length === 0) return { check, state: "ok", text };
  const remedy = "Let the room show addresses to everybody, or make the account a moderator there (docs/xmpp.md).";
  return { check, state: "warn", text: `${text}. ${sentences.join(" ")}`, ...(hidden.length === 0 ? {} : { remedy }) };
}

function agentFinding(agent: string, report: RuntimeReport | undefined): Finding {
  const check = `agent ${agent}`;
  if (report === undefined) return { check, state: "warn", text: "the gateway does not say what runs it" };
  const { name, version, ok, detail, missing } = report;
  const text = `runtime ${name}${version === null ? "" : ` ${version}`}, as the gateway runs it: ${detail}`;
  if (ok) return { check, state: "ok", text };
  return { check, state: "fail", text, remedy: missing ?? "See to it that the gateway can reach it." };
}

/** What this shell would run is not what runs: an environment of its own, another file, or a change that waits for a restart. */
function differenceFinding(config: Config, { name, runtime, model }: Status["agents"][number]): Finding[] {
  const own = config.agents[name];
  if (own === undefined) return [];
  const ownModel = describeAgent(config, name, own.runtime).model;
  if (own.runtime === runtime && ownModel === model) return [];
  const said = (runtimeName: string, modelName: string | undefined): string =>
    modelName === undefined ? runtimeName : `${runtimeName} (model ${modelName})`;
  return [
    {
      check: `agent ${name}`,
      state: "warn",
      text: `The gateway runs it on ${said(runtime, model)}; by the configuration of this shell it would be ${said(own.runtime, ownModel)}.`,
      remedy: "Restart the gateway to have it as this shell has it, or run this where the gateway was started.",
    },
  ];
}
