import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: [
            "src/**/*.test.ts",
            "test/contract/**/*.test.ts",
            "test/flow/**/*.test.ts",
            "test/replay/**/*.test.ts",
          ],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: "xmpp",
          include: ["test/xmpp/**/*.test.ts"],
          testTimeout: 40_000,
          hookTimeout: 60_000,
          maxWorkers: 3,
        },
      },
      { test: { name: "e2e", include: ["test/e2e/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 } },
    ],
  },
});
