import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/util/clock.ts";
import { temporaryFolder } from "../support/store.ts";
import { storeContract } from "./store.contract.ts";

storeContract("sqlite", async () => {
  const folder = temporaryFolder();
  return {
    open: async () => openSqliteStore({ path: `${folder.path}/state.db`, clock: systemClock }),
    dispose: async () => folder.remove(),
  };
});
