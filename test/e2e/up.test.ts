/** `perdure up`: everything in one process tree, from its first line to its end, including forced ends. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { perdure } from "../cli/kit.ts";
import { newSchema } from "../postgres/kit.ts";
import { IS_FULL } from "../tier.ts";
import { reckon } from "./final-check.ts";
import {
  connect,
  freePort,
  gone,
  isAlive,
  linesIn,
  newHome,
  numberIn,
  output,
  Proc,
  pass,
  resultOf,
  sh,
  TASKS,
  TEST_MS,
  tokenIn,
  treeOf,
  until,
  up,
} from "./kit.ts";

describe("perdure up", { timeout: TEST_MS }, () => {
  it("runs commands and tasks of a module, returns logs and files, and stops without a loss", async () => {
    const home = newHome();
    const held = join(home, "held");
    const go = join(home, "go");
    const first = await up({ home, args: ["--tasks", TASKS, "--grace", "500ms"] });
    expect(first).toMatchObject({ workers: 1, pid: first.proc.pid, store: join(home, "data", "perdure.db") });
    const client = await connect(first.url, tokenIn(first));

    const script = 'echo to out; echo to err >&2; printf %s "a picture" > "$PERDURE_OUTPUT_DIR/artifacts/p.txt"';
    const command = await client.submit("exec", sh(script));
    expect(await command.result()).toMatchObject({ exitCode: 0, outputs: [{ name: "p.txt", size: 9 }] });
    expect(await output(client, command.id, 1, "stdout.log")).toBe("to out\n");
    expect(await output(client, command.id, 1, "stderr.log")).toBe("to err\n");
    expect(await output(client, command.id, 1, "artifacts/p.txt")).toBe("a picture");
    expect(await (await client.submit("add", { a: 2, b: 3 })).result()).toEqual({ sum: 5 });

    // It stops in the middle of an attempt that does not end in the grace time.
    const job = await client.submit("hold", { effects: held, file: go });
    await until("the task runs", () => linesIn(held).length === 1);
    expect(await first.proc.stop()).toBe(0);

    writeFileSync(go, "");
    const second = await up({ home, args: ["--tasks", TASKS] });
    expect(tokenIn(second)).toBe(tokenIn(first));
    const again = await connect(second.url, tokenIn(second));
    expect(await (await again.job(job.id)).result()).toEqual({ attempt: 2 });
    expect(await again.job(job.id).then((handle) => handle.get())).toMatchObject({ failures: 0, losses: 0 });
    expect((await reckon(again)).jobs.size).toBe(3);
    expect(await second.proc.stop()).toBe(0);
  });

  it("killed, leaves no process behind; restarted, it finishes what was interrupted", async () => {
    const home = newHome();
    const [pids, go] = [join(home, "pids"), join(home, "go")];
    const args = ["--port", String(await freePort()), "--workers", "2"];
    const first = await up({ home, args });
    const client = await connect(first.url, tokenIn(first));
    const script = `echo $$ >> ${pids}; echo begun; while [ ! -e ${go} ]; do sleep 0.1; done; echo over`;
    const job = await client.submit("exec", sh(script));
    const result = resultOf(job);
    const command = await numberIn(pids);
    const tree = treeOf(first.proc.pid);
    expect(tree.length).toBeGreaterThan(3);
    expect(tree).toContain(command);

    await first.proc.kill();
    await gone(command, "the command has exited");
    const second = await up({ home, args });
    for (const pid of tree) await gone(pid, `process ${pid} of ${tree} has exited`);
    await until("the command runs again", () => linesIn(pids).length === 2);
    writeFileSync(go, "");
    expect(await result).toMatchObject({ exitCode: 0 });
    expect(await job.get()).toMatchObject({ attempt: 2, failures: 0 });
    expect(await output(client, job.id, 2, "stdout.log")).toBe("begun\nover\n");
    await reckon(client);

    // A second SIGTERM, in the middle of a graceful stop that would take an hour.
    const deaf = join(home, "deaf");
    const cut = await client.submit("exec", {
      ...sh(`trap '' TERM; setsid sleep 3600 & echo $$ >> ${deaf}; while :; do sleep 0.1; done`),
      grace: "1h",
    });
    await numberIn(deaf);
    const all = treeOf(second.proc.pid);
    expect(all.length).toBeGreaterThan(5);
    second.proc.signal("SIGTERM");
    await until("it is stopping", () => second.proc.log.includes("send it again to exit now"));
    await pass(600); // an earlier one counts as the same signal
    const at = performance.now();
    expect(await second.proc.stop()).toBe(143);
    for (const pid of all) await gone(pid, `process ${pid} of ${all} has exited`);
    // One second is guaranteed; a machine that stalls may take longer.
    if (IS_FULL) expect(performance.now() - at).toBeLessThan(3_000);
    const said = await perdure(["get", cut.id, "--json", "--data", join(home, "data")], { cwd: home });
    expect(JSON.parse(said.stdout)).toMatchObject({ attempt: 1, failures: 0 });
    expect(JSON.parse(said.stdout).state).toMatch(/^(queued|running)$/); // released, or lost and found by the next engine
  });

  it.runIf(IS_FULL)("killed in the middle of a stop that would take an hour, leaves no process behind", async () => {
    const home = newHome();
    const pids = join(home, "pids");
    const { proc, url, tokenFile } = await up({ home, args: ["--grace", "1h"] });
    const client = await connect(url, tokenIn({ tokenFile }));
    const script = `trap '' TERM; setsid sleep 3600 & echo $$ >> ${pids}; while :; do sleep 0.1; done`;
    await client.submit("exec", { ...sh(script), grace: "1h" });
    await numberIn(pids);
    const tree = treeOf(proc.pid);
    proc.signal("SIGTERM");
    await until("the worker is stopping too", () => proc.log.split("send it again to exit now").length === 3);
    await proc.kill();
    for (const pid of tree) await gone(pid, `process ${pid} of ${tree} has exited`);
  });

  it.runIf(IS_FULL)("runs a failed `perdure run` again that is redriven", async () => {
    const home = newHome();
    const data = join(home, "data");
    const here = { cwd: home, env: { PERDURE_DATA: data } };
    const ok = join(home, "ok");
    const ran = await perdure(["run", "--max-attempts", "1", "--", "sh", "-c", `test -e ${ok}`], here);
    expect(ran.code).toBe(1);
    const id = /job_\w{26}/.exec(ran.stderr)?.[0] as string;
    writeFileSync(ok, "");
    const { proc, url, tokenFile, store } = await up({ home });
    expect(store).toBe(join(data, "perdure.db"));
    const client = await connect(url, tokenIn({ tokenFile }));
    await client.redrive(id);
    expect(await (await client.job(id)).result()).toMatchObject({ exitCode: 0 });
    expect(await proc.stop()).toBe(0);
  });

  it.runIf(IS_FULL)("restarts a killed worker, and its job", async () => {
    const home = newHome();
    const [pids, go] = [join(home, "pids"), join(home, "go")];
    const { proc, url, tokenFile } = await up({ home });
    const client = await connect(url, tokenIn({ tokenFile }));
    const job = await client.submit("exec", sh(`echo $$ >> ${pids}; while [ ! -e ${go} ]; do sleep 0.1; done`));
    const command = await numberIn(pids);
    const [session] = await client.workers();
    const pid = session?.pid as number;
    expect(treeOf(proc.pid)).toContain(pid);
    process.kill(pid, "SIGKILL");
    await gone(command, "the command has exited");
    await until("the command runs again", () => linesIn(pids).length === 2);
    writeFileSync(go, "");
    expect(await job.result()).toMatchObject({ exitCode: 0 });
    const [lost, completed] = await job.attempts();
    expect([lost?.outcome, lost?.session, completed?.outcome]).toEqual(["lost", session?.id, "completed"]);
    expect(await proc.stop()).toBe(0);
  });

  it.runIf(IS_FULL)("S24: does not expose the database's address", async () => {
    const home = newHome();
    const [pids, go] = [join(home, "pids"), join(home, "go")];
    const { url: db, schema } = newSchema("e2e");
    const { proc, url, tokenFile } = await up({ home, env: { PERDURE_DB: db } });
    const token = tokenIn({ tokenFile });
    const client = await connect(url, token);
    const job = await client.submit("exec", sh(`echo $$ >> ${pids}; while [ ! -e ${go} ]; do sleep 0.1; done`));
    const command = await numberIn(pids);
    const others = treeOf(proc.pid).filter((pid) => pid !== proc.pid);
    expect(others).toContain(command);
    for (const pid of others.filter(isAlive)) {
      const seen = readIfThere(`/proc/${pid}/environ`) + readIfThere(`/proc/${pid}/cmdline`);
      expect([seen.includes(schema), seen.includes(token)]).toEqual([false, false]);
    }
    writeFileSync(go, "");
    await job.result();
    expect(await proc.stop()).toBe(0);
    expect([proc.log.includes(schema), proc.log.includes(token)]).toEqual([false, false]);
    // While it is down nothing is stored, or searched, in a file without a server.
    for (const argv of [["submit", "--", "true"], ["ps"], ["run", "--", "true"]]) {
      const said = await perdure([argv[0] as string, "--data", join(home, "data"), ...argv.slice(1)], { cwd: home });
      expect(said).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("are in postgres") });
      expect(said.stderr).toContain("start it again");
    }
    expect(existsSync(join(home, "data", "perdure.db"))).toBe(false);
  });

  it.runIf(IS_FULL)("is refused where another serves the same data, which is named by its pid", async () => {
    const home = newHome();
    const first = await up({ home, args: ["--workers", "0"] });
    const second = new Proc(home, ["up", "--data", join(home, "data"), "--port", "0"], {});
    expect(await second.ended).toEqual({ code: 1, signal: null });
    expect(second.log).toContain(`in use by the server with pid ${first.proc.pid}, at ${first.url}`);
    expect(isAlive(first.proc.pid)).toBe(true);
    expect((await fetch(`${first.url}/readyz`)).status).toBe(200);
    expect(readFileSync(first.tokenFile, "utf8")).not.toBe("");
  });
});

/** Of a process that may have exited by now. */
function readIfThere(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
