import { expect, it } from "vitest";
import { withoutSqliteWarning } from "./driver.ts";

const EXPERIMENTAL = "SQLite is an experimental feature and might change at any time";

it("suppresses the warning of Node 22 about its SQLite, and no other", async () => {
  const heard: string[] = [];
  const hear = (warning: Error) => void heard.push(`${warning.name}: ${warning.message}`);
  process.on("warning", hear);
  try {
    const answer = withoutSqliteWarning(() => {
      process.emitWarning(EXPERIMENTAL, "ExperimentalWarning");
      process.emitWarning(EXPERIMENTAL, { type: "ExperimentalWarning" });
      process.emitWarning("another feature is experimental", "ExperimentalWarning");
      process.emitWarning(EXPERIMENTAL, { type: "OtherWarning" });
      return 7;
    });
    expect(answer).toBe(7);
    expect(() =>
      withoutSqliteWarning(() => {
        throw new Error("not there");
      }),
    ).toThrow("not there");
    process.emitWarning(`${EXPERIMENTAL}, later`, "ExperimentalWarning");
    await new Promise((resolve) => setImmediate(resolve)); // warnings are emitted in the next tick
  } finally {
    process.off("warning", hear);
  }
  expect(heard).toEqual([
    "ExperimentalWarning: another feature is experimental",
    `OtherWarning: ${EXPERIMENTAL}`,
    `ExperimentalWarning: ${EXPERIMENTAL}, later`,
  ]);
});
