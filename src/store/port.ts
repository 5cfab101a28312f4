import type { AdmitBatch, AdmitResult } from "./events.ts";
import type { KeepChange, KeepResult } from "./keep.ts";
import type { StoreReader } from "./readers.ts";
import type { DeliveryRow } from "./rows.ts";
import type { BeginResult, Marked, NotRunning, Settlement, SettleResult, TurnMark } from "./turns.ts";

/**
 * The durable half of the gateway. Seven verbs write, each in one transaction; nothing else writes. They are deterministic: times, settings
 * and ids are arguments; integer ids are the database's. A refusal of the domain is a value. A rejected promise means that nothing was
 * written: `stale_claim` (a newer gateway owns this state) or `store_unavailable` (disk full, file locked, store closed).
 */
export interface Store extends StoreReader {
  /** Raises the epoch and returns the claim of this boot: every older claim is stale from now on. */
  claim(holder: string): Promise<Claim>;

  /** Stores a batch of events of one account and its cursor. Resolves when they are durable: only then may a platform be acknowledged (T2). */
  admit(batch: AdmitBatch, claim: Claim): Promise<AdmitResult>;
  /** Makes the session's oldest waiting turn the running one, or recovers a turn that an older epoch left running (T8). Safe to repeat. */
  begin(request: { sessionId: string; now: number }, claim: Claim): Promise<BeginResult>;
  /** Stores what must be durable before text is shown, a tool runs, or a prompt is written (T8). */
  mark(mark: TurnMark, claim: Claim): Promise<Marked | NotRunning>;
  /** Ends a running turn: stores its final state, the reply as message, entry and deliveries, the fates, and what the prompt showed. */
  settle(settlement: Settlement, claim: Claim): Promise<SettleResult>;
  /** Counts a further attempt of a lane's first open delivery, before it is sent (O1). */
  attempt(request: { deliveryId: number; now: number }, claim: Claim): Promise<DeliveryRow | NotDue>;
  /** Stores the result of an attempt. A failed part stops the later parts of the same reply, not the lane. */
  delivered(report: DeliveryReport, claim: Claim): Promise<void>;
  /** Changes what belongs to no event and no turn, and prunes. */
  keep(change: KeepChange, claim: Claim): Promise<KeepResult>;

  close(): Promise<void>;
}

/** The right to write, as one boot of a gateway holds it. */
export interface Claim {
  readonly holder: string;
  readonly epoch: number;
}

export interface DeliveryReport {
  readonly deliveryId: number;
  readonly now: number;
  readonly result:
    | { readonly kind: "delivered"; readonly externalId?: string }
    | {
        readonly kind: "retry";
        readonly dueAt: number;
        readonly reason: string;
        /** False for an attempt while the channel was offline. */
        readonly counts: boolean;
      }
    | { readonly kind: "unknown"; readonly reason: string }
    | { readonly kind: "failed"; readonly reason: string };
}

/** The delivery is not the first open one of its lane, or its time has not come. */
export interface NotDue {
  readonly kind: "not_due";
}
