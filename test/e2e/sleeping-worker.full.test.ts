/** A worker that is stopped for longer than its lease, like a sleeping machine, and resumes: another worker holds its
 *  jobs by then, and nothing that it still reports or writes changes that. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { reckon } from "./final-check.ts";
import {
  connect,
  gone,
  HAS_ELSEWHERE,
  isAlive,
  linesIn,
  newHome,
  output,
  Server,
  sh,
  TEST_MS,
  until,
  worker,
} from "./kit.ts";

const STORY = ["job.submitted", "attempt.started", "attempt.lost", "attempt.started", "attempt.succeeded"];

it("refuses reports of a worker that slept past its lease, and ends its command", { timeout: TEST_MS }, async () => {
  const files = newHome();
  const [pids, held, go] = ["pids", "held", "go"].map((name) => join(files, name)) as [string, string, string];
  const letGo = join(files, "let-go");
  const server = await Server.start();
  const client = await connect(server.url, server.token);
  // Long enough that only its sleep makes it lose its jobs, on a machine that stalls at times.
  const sleeper = await worker(server, { args: ["--worker-lease", "6s", "--name", "sleeper"] });

  // It keeps writing while its worker sleeps: the worker will try to send that when it resumes.
  const script = `echo $$ >> ${pids}; while [ ! -e ${go} ]; do echo "tick $PERDURE_ATTEMPT"; sleep 0.2; done
    echo "end $PERDURE_ATTEMPT"; echo "$PERDURE_ATTEMPT" > "$PERDURE_OUTPUT_DIR/artifacts/who"`;
  const command = await client.submit("exec", sh(script));
  const fn = await client.submit("hold", { effects: held, file: letGo });
  const stdout = (attempt: number) => output(client, command.id, attempt, "stdout.log");
  await until("its output is on the server", async () => (await stdout(1))?.startsWith("tick 1\n"));
  await until("the function runs too", () => linesIn(held).length === 1);
  const [first = 0] = linesIn(pids).map(Number);
  sleeper.proc.signal("SIGSTOP");

  for (const job of [command, fn]) {
    await until("the job is taken from it", async () => (await job.get()).losses === 1);
  }
  const sentBefore = await stdout(1);
  const other = await worker(server, { args: ["--worker-lease", "30s", "--name", "other"], elsewhere: true });
  await until("the other runs both", () => linesIn(pids).length === 2 && linesIn(held).length === 2);

  // On the same host the other worker ends it first; elsewhere it runs until its own worker can end it.
  if (HAS_ELSEWHERE) expect(isAlive(first)).toBe(true);
  // The sleeper's function returns a result at once when it resumes, beside that of the other.
  writeFileSync(letGo, "");
  sleeper.proc.signal("SIGCONT");
  await gone(first, "the command of the first attempt has exited");
  writeFileSync(go, "");
  expect(await command.result()).toMatchObject({ exitCode: 0, outputs: [{ name: "who" }] });
  expect(await fn.result()).toEqual({ attempt: 2 });

  // It works again, and has reported what it had to by its end.
  await other.proc.kill();
  expect(await (await client.submit("add", { a: 1, b: 2 })).result()).toEqual({ sum: 3 });
  expect(await sleeper.proc.stop()).toBe(0);

  const { events } = await reckon(client);
  for (const job of [command, fn]) {
    const { attempt, losses, failures } = await job.get();
    expect({ attempt, losses, failures }).toEqual({ attempt: 2, losses: 1, failures: 0 });
    expect((await job.attempts()).map((row) => [row.outcome, row.session])).toEqual([
      ["lost", sleeper.session],
      ["completed", other.session],
    ]);
    expect(events.get(job.id)?.map(({ name }) => name)).toEqual(STORY);
  }
  expect(await stdout(2)).toMatch(/^(tick 2\n)+end 2\n$/);
  expect(await output(client, command.id, 2, "artifacts/who")).toBe("2\n");
  expect(await stdout(1)).toBe(sentBefore);
  expect(await output(client, command.id, 1, "artifacts/who")).toBeNull();
});
