/** The command may put links where we look: nothing outside is listed, read or removed through them. */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openBench, tempDir, until } from "./kit.ts";

async function victims() {
  const bench = await openBench();
  const victim = tempDir();
  writeFileSync(join(victim, "precious"), "secret");
  return { bench, victim, env: { VICTIM: victim } };
}

describe("a link", () => {
  it("in place of the attempt's directory leads nobody out of it", async () => {
    const { bench, victim, env } = await victims();
    const { job } = await bench.sh('cd /; rm -r "$PERDURE_OUTPUT_DIR"; ln -s "$VICTIM" "$PERDURE_OUTPUT_DIR"', { env });
    await bench.perdure.close(); // all tidying is done
    expect(readdirSync(victim)).toEqual(["precious"]);
    expect(job.state).toBe("succeeded");
  });

  it("in place of the job's directory leads nobody out of it", async () => {
    const { bench, victim, env } = await victims();
    const script =
      'cd /; mkdir "$VICTIM/attempt_1"; touch "$VICTIM/attempt_1/mine"; j=$(dirname "$PERDURE_OUTPUT_DIR"); rm -r "$j"; ln -s "$VICTIM" "$j"';
    const { job } = await bench.sh(script, { env });
    const outputs = await bench.perdure.outputs(job.id);
    expect(await outputs.read(1, "mine")).toBe(null);
    await bench.perdure.close();
    expect(readdirSync(victim).sort()).toEqual(["attempt_1", "precious"]);
    expect(existsSync(join(victim, "attempt_1/mine"))).toBe(true);
  });

  it("in place of artifacts/ is not followed", async () => {
    const { bench, env } = await victims();
    const { result, job } = await bench.sh('rm -r artifacts; ln -s "$VICTIM" artifacts', { env });
    expect(result.outputs).toEqual([]);
    expect(await (await bench.perdure.outputs(job.id)).read(1, "artifacts/precious")).toBe(null);
  });

  it("within artifacts/ is counted and not followed", async () => {
    const { bench, env } = await victims();
    const script =
      'cd artifacts; ln -s "$VICTIM" folder; ln -s "$VICTIM/precious" file; ln -s . loop; ln -s /dev/zero zero; echo 1 > real';
    const { result, job } = await bench.sh(script, { env });
    expect(result.outputs.map(({ name }) => name)).toEqual(["real"]);
    expect(result.moreOutputs).toBe(4);
    const outputs = await bench.perdure.outputs(job.id);
    for (const name of ["folder/precious", "file", "loop/real", "zero"]) {
      expect(await outputs.read(1, `artifacts/${name}`), name).toBe(null);
    }
  });

  it("in scratch is removed, and what it points to stays", async () => {
    const { bench, victim, env } = await victims();
    const { dir } = await bench.sh('ln -s "$VICTIM" folder; ln -s "$VICTIM/precious" file', { env });
    await until("scratch is gone", () => !readdirSync(dir).includes("folder"));
    await bench.perdure.close();
    expect(readdirSync(victim)).toEqual(["precious"]);
  });

  it("for a log that is removed meanwhile is harmless", async () => {
    const { bench, victim, env } = await victims();
    const script = 'echo a; rm stdout.log; ln -s "$VICTIM/precious" stdout.log; echo b';
    const { job } = await bench.sh(script, { env });
    expect(job.state).toBe("succeeded");
    expect(await (await bench.perdure.outputs(job.id)).read(1, "stdout.log")).toBe(null);
    expect(readdirSync(victim)).toEqual(["precious"]);
  });
});

describe("a prune", () => {
  it("through a link removes the link", async () => {
    const victim = tempDir();
    writeFileSync(join(victim, "precious"), "secret");
    const bench = await openBench({ open: { retention: { succeeded: "1ms" } } });
    const { job } = await bench.sh(
      'ln -s $VICTIM artifacts/link; j=$(dirname "$PERDURE_OUTPUT_DIR"); ln -s $VICTIM $j/other',
      {
        env: { VICTIM: victim },
      },
    );
    await until("it is pruned", async () => (await bench.perdure.prune()) === 1);
    expect(existsSync(join(bench.dir, "artifacts", job.id))).toBe(false);
    expect(readdirSync(victim)).toEqual(["precious"]);
  });
});
