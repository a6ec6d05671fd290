/** Long text from untrusted sources: 200 kB that an expression could be slow on. Linear takes milliseconds, quadratic
 *  took a minute; the limit allows for a busy machine. */
import { describe, expect, it } from "vitest";
import { withoutPassword } from "../src/cli/config/show-value.ts";
import { withoutEnd } from "../src/core/format.ts";
import { madeName } from "../src/core/job/job-name.ts";
import type { ReadContext } from "../src/dialects/dialect.ts";
import { noetl } from "../src/dialects/noetl/dialect.ts";
import { DIALECT_DEFAULTS } from "../src/dialects/settings.ts";

const LONG = 200_000;
const LIMIT_MS = 5_000;

const CONTEXT: ReadContext = {
  ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "jobs/task.yaml" },
  yaml: () => null,
  bytes: () => null,
  randomBytes: (count) => new Uint8Array(count),
};
const python = (code: string) => noetl.read({ step: "s", type: "python", code }, CONTEXT);

describe("200 kB of it", () => {
  it.each<[string, () => unknown]>([
    ["empty lines in a program of NoETL", () => python(`def main():\n${"\n".repeat(LONG)}x`)],
    ["spaces in a program of NoETL", () => python(`def main():\n${" ".repeat(LONG)}x`)],
    ["slashes at the end of a path", () => withoutEnd(`${"/".repeat(LONG)}x`, "/")],
    ["colons in what may be an address", () => withoutPassword(`${":".repeat(LONG)}x`)],
    ["slashes in a command", () => madeName({ kind: "exec", payload: { argv: [`${"/".repeat(LONG)}x`] } })],
  ])("%s", (_, run) => {
    const started = performance.now();
    run();
    expect(performance.now() - started).toBeLessThan(LIMIT_MS);
  });
});
