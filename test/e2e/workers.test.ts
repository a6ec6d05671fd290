/** Single workers and their commands: killed, drained, and which data of the worker a command can see. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newSchema } from "../postgres/kit.ts";
import { IS_FULL } from "../tier.ts";
import { reckon } from "./final-check.ts";
import {
  connect,
  gone,
  linesIn,
  newHome,
  numberIn,
  output,
  SECRET,
  Server,
  sh,
  TEST_MS,
  treeOf,
  until,
  worker,
} from "./kit.ts";

it("ends its command when it is killed; another worker runs the job, and uploaded output is kept", {
  timeout: TEST_MS,
}, async () => {
  const files = newHome();
  const [pids, go] = [join(files, "pids"), join(files, "go")];
  const server = await Server.start(); // a killed worker of this machine is detected long before its lease ends
  const client = await connect(server.url, server.token);
  const first = await worker(server, { args: ["--name", "first"] });
  // The grandchild must exit, too.
  const script = `(echo $$ >> ${pids}; echo "run $PERDURE_ATTEMPT"; sleep 600 & echo $! >> ${pids}
    while [ ! -e ${go} ]; do sleep 0.1; done; kill $!)`;
  const job = await client.submit("exec", sh(script));
  await until("its output is on the server", async () => (await output(client, job.id, 1, "stdout.log")) === "run 1\n");
  const begun = await until("both processes are known", () => linesIn(pids).length >= 2 && linesIn(pids).map(Number));
  await first.proc.kill();
  for (const pid of begun) await gone(pid);

  const second = await worker(server, { args: ["--name", "second"] });
  await until("the second runs it", () => linesIn(pids).length >= 4);
  writeFileSync(go, "");
  expect(await job.result()).toMatchObject({ exitCode: 0 });
  expect((await job.attempts()).map((row) => [row.outcome, row.session])).toEqual([
    ["lost", first.session],
    ["completed", second.session],
  ]);
  expect(await output(client, job.id, 1, "stdout.log")).toBe("run 1\n");
  expect(await output(client, job.id, 2, "stdout.log")).toBe("run 2\n");
  await reckon(client);
});

it.runIf(IS_FULL)(
  "drained by a command, finishes its job, takes no other, and exits with 0",
  { timeout: TEST_MS },
  async () => {
    const files = newHome();
    const [begun, go] = [join(files, "begun"), join(files, "go")];
    const server = await Server.start();
    const client = await connect(server.url, server.token);
    const { proc, session } = await worker(server);
    const script = `echo $$ >> ${begun}; while [ ! -e ${go} ]; do sleep 0.1; done; echo done`;
    const job = await client.submit("exec", sh(script));
    await numberIn(begun);
    await client.drain(session);
    await until("it is draining", async () =>
      (await client.workers()).some(({ id, drainingAt }) => id === session && drainingAt !== null),
    );
    const later = await client.submit("add", { a: 1, b: 1 });
    expect(proc.isOver).toBe(false);
    writeFileSync(go, "");
    expect(await job.result()).toMatchObject({ exitCode: 0 });
    expect(await proc.ended).toEqual({ code: 0, signal: null });
    expect(await output(client, job.id, 1, "stdout.log")).toBe("done\n");
    expect(await later.get()).toMatchObject({ attempt: 0 });
    await worker(server);
    expect(await later.result()).toEqual({ sum: 2 });
    expect(linesIn(begun)).toHaveLength(1);
  },
);

it("S07, S24: on another host needs no access to the database, and exposes no secret to commands or in ps", {
  timeout: TEST_MS,
}, async () => {
  const files = newHome();
  const [begun, go] = [join(files, "begun"), join(files, "go")];
  const { url: db, schema } = newSchema("e2e");
  const server = await Server.start({ db });
  const client = await connect(server.url, server.token);
  const token = readFileSync(server.workerTokenFile, "utf8").trim();
  // The token is in the environment, as in a container: it is the worker's, not its command's.
  const env = { PERDURE_TOKEN: token, DATABASE_URL: "postgres://canary", SECRET_CANARY: "canary" };
  const { proc } = await worker(server, { env });
  const job = await client.submit("exec", sh(`echo $$ >> ${begun}; while [ ! -e ${go} ]; do sleep 0.1; done; env`));
  const command = await numberIn(begun);

  const password = new URL(db).password;
  const secrets = [token, server.token, schema, SECRET, "canary", ...(password === "" ? [] : [password])];
  const shown = (text: string) => secrets.filter((secret) => text.includes(secret));
  expect(readFileSync(`/proc/${proc.pid}/environ`, "utf8")).not.toContain(schema);
  expect(shown(readFileSync(`/proc/${command}/environ`, "utf8"))).toEqual([]);
  // Processes of other tests may get theirs as arguments: those are ignored.
  const ours = [server.proc.pid, proc.pid].flatMap((pid) => treeOf(pid as number));
  expect(ours).toContain(command);
  for (const pid of ours) {
    let args = "";
    try {
      args = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    } catch {
      continue; // it has just exited
    }
    expect([args, shown(args)]).toEqual([args, []]);
  }
  writeFileSync(go, "");
  await job.result();
  const environment = (await output(client, job.id, 1, "stdout.log")) as string;
  expect(shown(environment)).toEqual([]);
  const names = environment.split("\n").flatMap((line) => /^(\w+)=/.exec(line)?.[1] ?? []);
  // Except the address of its server, and a token of its own, which is valid for this attempt only.
  const telling = names.filter((name) => /TOKEN|DB|DATABASE|URL|SECRET|NODE_/.test(name));
  expect(telling.sort()).toEqual(["PERDURE_TOKEN", "PERDURE_URL"]);
  const own = /^PERDURE_TOKEN=(pdj_.+)$/m.exec(environment)?.[1] ?? "";
  await expect((await connect(server.url, own)).jobs()).rejects.toMatchObject({ code: "unauthorized" });
  // Nor do the logs of either contain it.
  expect(shown(proc.log + server.proc.log)).toEqual([]);
});
