/**
 * A closed-loop client in a process of its own: each of `atOnce` workers sends a message, waits for its answer, and sends the next one,
 * over connections that stay open. The number of messages is bounded.
 */

import { fork } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { OWNER_TOKEN } from "../test/support/http-client.ts";
import { quantile } from "./table.ts";

/** A server that does not answer ends the measurement. */
const PATIENCE_MS = 20_000;

export interface Load {
  readonly url: string;
  readonly atOnce: number;
  readonly messages: number;
  /** The workers go round these, no two in the same one: a multiple of `atOnce`. */
  readonly conversations: number;
  readonly prefix: string;
}

export interface LoadResult {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly perSecond: number;
}

export interface LoadClient {
  run(load: Load): Promise<LoadResult>;
  stop(): Promise<void>;
}

/** The client process; it lives through many loads, so that it is as warm for one side as for the other. */
export function startLoadClient(): LoadClient {
  const child = fork(import.meta.filename);
  const ended = once(child, "exit");
  return {
    async run(load) {
      child.send(load);
      const outcome = await Promise.race([once(child, "message"), ended]);
      const [result] = outcome as [LoadResult | { error: string } | number];
      if (typeof result === "number" || result === null) throw new Error("The load client ended.");
      if ("error" in result) throw new Error(result.error);
      return result;
    },
    async stop() {
      child.disconnect();
      await ended;
    },
  };
}

if (process.send !== undefined && import.meta.main) {
  process.on("message", (load: Load) => {
    runLoad(load).then(
      (result) => process.send!(result),
      (error: Error) => process.send!({ error: error.message }),
    );
  });
}

async function runLoad(load: Load): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: load.atOnce });
  const latencies: number[] = [];
  const from = performance.now();
  const work = async (worker: number): Promise<void> => {
    for (let n = worker; n < load.messages; n += load.atOnce) {
      const sentAt = performance.now();
      await post(load, agent, `${load.prefix}${n % load.conversations}`, `This is message ${n}.`);
      latencies.push(performance.now() - sentAt);
    }
  };
  await Promise.all(Array.from({ length: load.atOnce }, (_, worker) => work(worker)));
  const seconds = (performance.now() - from) / 1_000;
  agent.destroy();
  return {
    p50: quantile(latencies, 0.5),
    p95: quantile(latencies, 0.95),
    p99: quantile(latencies, 0.99),
    perSecond: load.messages / seconds,
  };
}

function post(load: Load, agent: Agent, user: string, content: string): Promise<void> {
  const body = JSON.stringify({ model: "main", user, messages: [{ role: "user", content }] });
  const headers = {
    authorization: `Bearer ${OWNER_TOKEN}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const call = request(`${load.url}/v1/chat/completions`, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => {
        if (response.statusCode === 200 && text.includes(content)) resolve();
        else reject(new Error(`${response.statusCode}: ${text.slice(0, 200)}`));
      });
      response.on("error", reject);
    });
    call.on("error", reject);
    call.setTimeout(PATIENCE_MS, () =>
      call.destroy(new Error(`No answer from ${load.url} for ${PATIENCE_MS / 1_000} s.`)),
    );
    call.end(body);
  });
}
