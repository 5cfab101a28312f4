import type { DeliveryReader } from "../../readers.ts";
import { type DeliveryRecord, deliveryOf } from "../rows.ts";
import type { ReadsOf } from "./reads.ts";

export const deliveryReads: ReadsOf<DeliveryReader> = {
  deliveries(db, query) {
    return db
      .all<DeliveryRecord>(
        "SELECT * FROM delivery WHERE lane = ? AND id > ? ORDER BY id LIMIT ?",
        query.lane,
        query.after,
        query.limit,
      )
      .map(deliveryOf);
  },

  openDeliveries(db, query) {
    const open = "state IN('queued','sending','streaming')";
    const rows =
      query === undefined
        ? db.all<DeliveryRecord>(
            `SELECT d.* FROM delivery d JOIN (SELECT min(id) AS id FROM delivery WHERE ${open} GROUP BY lane) h ON h.id = d.id ORDER BY d.id`,
          )
        : db.all<DeliveryRecord>(`SELECT * FROM delivery WHERE lane = ? AND ${open} ORDER BY id LIMIT 1`, query.lane);
    return rows.map(deliveryOf);
  },
};
