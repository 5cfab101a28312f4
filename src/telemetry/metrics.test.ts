import { expect, test } from "vitest";
import { createMetrics, type Levels } from "./metrics.ts";

const NOTHING: Levels = { waitingTurns: 0, runningTurns: 0, openDeliveries: 0, handles: [] };

test("every metric has its help and type from the first scrape on, and every outcome its row", async () => {
  const text = await createMetrics().text(NOTHING);
  for (const name of [
    "turns_total counter",
    "agent_turns_total counter",
    "tokens_total counter",
    "turn_queued_seconds histogram",
    "turn_first_text_seconds histogram",
    "turn_seconds histogram",
    "cold_starts_total counter",
    "deliveries_total counter",
    "delivery_retries_total counter",
    "session_resets_total counter",
    "queue_depth gauge",
    "running_turns gauge",
    "open_deliveries gauge",
    "warm_handles gauge",
    "handles gauge",
  ]) {
    expect(text).toContain(`# TYPE tertulia_${name}\n`);
    expect(text).toMatch(new RegExp(`# HELP tertulia_${name.split(" ")[0]} \\S`));
  }
  for (const outcome of ["answered", "silent", "failed", "interrupted", "withdrawn"])
    expect(text).toContain(`tertulia_turns_total{outcome="${outcome}"} 0\n`);
});

test("what was counted is told, and levels are those of the moment", async () => {
  const metrics = createMetrics();
  metrics.turns.inc({ outcome: "failed" });
  metrics.resets.inc({ reason: "idle" }, 2);
  metrics.total.observe(0.7);
  const busy = await metrics.text({
    waitingTurns: 3,
    runningTurns: 2,
    openDeliveries: 4,
    handles: ["busy", "warm", "warm", "broken"],
  });
  expect(busy).toContain('tertulia_turns_total{outcome="failed"} 1\n');
  expect(busy).toContain('tertulia_session_resets_total{reason="idle"} 2\n');
  expect(busy).toContain('tertulia_turn_seconds_bucket{le="0.5"} 0\n');
  expect(busy).toContain('tertulia_turn_seconds_bucket{le="1"} 1\n');
  expect(busy).toContain("tertulia_queue_depth 3\n");
  expect(busy).toContain("tertulia_warm_handles 3\n");
  expect(busy).toContain('tertulia_handles{state="broken"} 1\n');
  const calm = await metrics.text(NOTHING);
  expect(calm).toContain("tertulia_queue_depth 0\n");
  expect(calm).toContain("tertulia_warm_handles 0\n");
  expect(calm).toContain('tertulia_handles{state="warm"} 0\n');
});

test("two gateways in one process count for themselves", async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.turns.inc({ outcome: "answered" });
  expect(await one.text(NOTHING)).toContain('tertulia_turns_total{outcome="answered"} 1\n');
  expect(await other.text(NOTHING)).toContain('tertulia_turns_total{outcome="answered"} 0\n');
});
