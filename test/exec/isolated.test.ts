/** Commands in a pid namespace of their own, where the machine lets us have one. */
import { describe, expect, it } from "vitest";
import { namespaceProblem } from "../../src/worker/exec/pid-namespace.ts";
import { allDead, exists, needle, openBench } from "./kit.ts";

const why = await namespaceProblem();
const bench = () => openBench({ work: { isolate: true } });

describe.skipIf(why !== null)("a command in a pid namespace", () => {
  it("takes everybody with it, however they hide", async () => {
    const { sh } = await bench();
    const mark = needle();
    const hidden = `env -i setsid /bin/sh -c 'trap "" TERM; while :; do /bin/sleep 1; done' ${mark}`;
    const { job } = await sh(`(${hidden} > /dev/null 2>&1 &) & exit 0`);
    expect(job.state).toBe("succeeded");
    await allDead(mark);
  });

  it("ends as without one: exit code, signal, standard input, its own directory", async () => {
    const { sh } = await bench();
    const ok = await sh("cat; echo $$; pwd", { stdin: "hello\n" });
    expect(ok.stdout.split("\n")).toEqual(["hello", "2", ok.dir, ""]);
    expect((await sh("echo why >&2; exit 7")).last.failure).toMatchObject({ exitCode: 7, message: "exit code 7: why" });
    const killed = (await sh("kill -KILL $$")).last.failure;
    expect(killed).toMatchObject({ kind: "signal", exitCode: 137, signal: "SIGKILL" });
  });

  it("cannot undo it: it has no right to mount, nor to gain one", async () => {
    const { sh } = await bench();
    // Only where it is in a namespace: elsewhere it would unmount the /proc of this machine.
    const undo = "[ $$ -lt 10 ] || exit 9; umount -l /proc && echo undone; unshare --mount true && echo gained";
    const look = `ls /proc | grep -c '^[0-9]'; cat /proc/1/environ > /dev/null && echo seen; :`;
    const { stdout, job } = await sh(`${undo}; ${look}`);
    expect(job.state).toBe("succeeded");
    expect(Number(stdout)).toBeLessThan(10);
    expect(Number(stdout)).toBeGreaterThan(1);
  });

  it("gets SIGTERM, and has its grace time", async () => {
    const { submit, ended, dirOf, perdure } = await bench();
    const script = "trap 'echo last words; exit 3' TERM; touch up; sleep 1000 & wait";
    const handle = await submit({ command: script, shell: true, grace: "20s" });
    await exists(`${dirOf(handle.id, 1)}/up`);
    await perdure.cancel(handle.id);
    const { job, stdout } = await ended(handle);
    expect(job.state).toBe("cancelled");
    expect(stdout).toBe("last words\n");
  });
});

it("without pid namespaces, commands run too", async () => {
  const { sh, logged } = await bench();
  expect((await sh("echo hi")).stdout).toBe("hi\n");
  expect(logged.some((line) => line.includes("pid namespaces unavailable"))).toBe(why !== null);
});
