/** What commands leave in the database, on the store that is the most particular about texts. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { newSchema } from "../postgres/kit.ts";
import { openBench, QUICK, tempDir } from "./kit.ts";

it("texts that no column takes do not keep a command from ending", async () => {
  const dir = tempDir();
  const open = { url: newSchema("exec").url, artifacts: join(dir, "artifacts") };
  const bench = await openBench({ dir, open });
  const loud = await bench.sh(String.raw`printf 'a\000b\377\355\240\200\n' >&2; exit 3`);
  expect(loud.last.failure).toMatchObject({ kind: "exit", exitCode: 3 });
  expect(loud.last.failure?.message).toMatch(/^exit code 3: a/);
  const verdict = String.raw`{"status":"%s","reason":"\u0000 \ud800","output":"\u0000 \ud800 \udfff"}`;
  const says = (status: string) => `cat > "$PERDURE_RESULT_FILE" <<'END'\n${verdict.replace("%s", status)}\nEND`;
  const done = await bench.sh(says("completed"));
  expect(done.job.state).toBe("succeeded");
  expect(done.result.output).toMatch(/^\0 /);
  const failed = await bench.sh(says("failed"));
  expect(failed.job).toMatchObject({ state: "failed", reason: "rejected" });
  const named = await bench.run({
    argv: ["perl", "-e", 'open F, ">", "artifacts/a\\x01\\xed\\xa0\\x80\\n"; print F 1'],
  });
  expect(named.job.state).toBe("succeeded");
  const usage = await bench.sh(
    `printf '{"tokens_in":1.5,"tokens_out":1e300,"cost_usd":1e308}' > "$PERDURE_USAGE_FILE"; exit 1`,
    {},
    { retry: { maxAttempts: 2, ...QUICK } },
  );
  expect(usage.job).toMatchObject({ state: "failed", reason: "exhausted", attempt: 2 });
  expect(bench.logged.filter((line) => line.startsWith("error"))).toEqual([]);
});
