/** A server that is stopped or killed while a worker runs a command and a client waits: both only see a pause. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { IS_FULL, inFull } from "../tier.ts";
import { reckon } from "./final-check.ts";
import {
  connect,
  linesIn,
  newHome,
  output,
  type Running,
  resultOf,
  Server,
  sh,
  TEST_MS,
  until,
  worker,
} from "./kit.ts";

// The same for all of them: the worker survives whatever happens to the server.
let server: Server;
let session: Running["session"];

beforeAll(async () => {
  server = await Server.start();
  ({ session } = await worker(server));
}, TEST_MS);

it.each(inFull<"SIGKILL" | "SIGTERM">(["SIGKILL", "SIGTERM"]))(
  "does not affect a command when its server ends by %s and comes back",
  { timeout: TEST_MS },
  async (signal) => {
    const files = newHome();
    const [pids, go] = [join(files, "pids"), join(files, "go")];
    const client = await connect(server.url, server.token);
    const script = `echo $$ >> ${pids}; i=0
    while [ ! -e ${go} ]; do i=$((i + 1)); echo "line $i"; sleep 0.2; done; echo "total $i"`;
    const job = await client.submit("exec", sh(script));
    const result = resultOf(job);
    await until("its output comes", async () =>
      ((await output(client, job.id, 1, "stdout.log")) ?? "").includes("line 2"),
    );

    server.proc.signal(signal);
    expect(await server.proc.ended).toEqual(signal === "SIGTERM" ? { code: 0, signal: null } : { code: null, signal });
    const before = linesIn(join(files, "pids"));
    await server.again().ready;
    const known = (await output(client, job.id, 1, "stdout.log")) ?? "";
    await until("more of its output comes", async () => {
      const now = (await output(client, job.id, 1, "stdout.log")) ?? "";
      return now.startsWith(known) && now.length > known.length;
    });
    writeFileSync(go, "");

    expect(await result).toMatchObject({ exitCode: 0 });
    expect(linesIn(pids), "it ran once").toEqual(before);
    const text = (await output(client, job.id, 1, "stdout.log")) as string;
    const count = Number(/total (\d+)\n$/.exec(text)?.[1]);
    expect(text).toBe(`${Array.from({ length: count }, (_, i) => `line ${i + 1}\n`).join("")}total ${count}\n`);
    const info = await job.get();
    expect([info.attempt, info.losses, info.failures]).toEqual([1, 0, 0]);
    expect((await job.attempts()).map((row) => [row.outcome, row.session])).toEqual([["completed", session]]);
    await reckon(client);
  },
);

it.runIf(IS_FULL)(
  "is awaited by a worker whose command ends while the server is away",
  { timeout: TEST_MS },
  async () => {
    const files = newHome();
    const [pids, go, over] = ["pids", "go", "over"].map((name) => join(files, name)) as [string, string, string];
    const client = await connect(server.url, server.token);
    const script = `echo $$ >> ${pids}; while [ ! -e ${go} ]; do sleep 0.1; done
    seq 1 50000; echo kept > "$PERDURE_OUTPUT_DIR/artifacts/file"; echo over > ${over}`;
    const job = await client.submit("exec", sh(script));
    const result = resultOf(job);
    await until("the command runs", () => linesIn(pids).length === 1);
    await server.proc.kill();
    writeFileSync(go, "");
    await until("the command is over", () => linesIn(over).length === 1);
    await server.again().ready;
    expect(await result).toMatchObject({ exitCode: 0, outputs: [{ name: "file" }] });
    expect((await output(client, job.id, 1, "stdout.log"))?.trimEnd().split("\n")).toHaveLength(50_000);
    expect(await output(client, job.id, 1, "artifacts/file")).toBe("kept\n");
    expect(linesIn(pids)).toHaveLength(1);
    await reckon(client);
  },
);
