/** "Verification Commands" of OPAL's document, run as they are written except for the port, in the directory that
 *  contains `runtime/`. The jobs are those two of the document, with its ids; real workers are ended by `kill -9`. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newPlace, PROGRAM, start } from "../cli/program.ts";
import { freePort } from "../e2e/machine.ts";
import { pathWithJq } from "./jq.ts";

const [RETRIED, SPENT] = ["job_92e725aa5034", "job_b853289fff4d"];
const COMMANDS = {
  attempts: "cat runtime/job_attempts/job_b853289fff4d.json | jq",
  outputs: "ls -R runtime/opal_artifacts/job_92e725aa5034/",
  reclaims: 'grep "Reclaiming job" runtime/logs/worker_pool/*.log',
  parity: "curl -sS http://127.0.0.1:7001/api/jobs | jq 'keys'",
};
/** The first attempt, or every attempt, runs until its worker is killed. */
const ENGINE = [
  "sh",
  "-c",
  'case "$OPAL_PROMPT-$PERDURE_ATTEMPT" in *FAIL_MAX-*|*RETRY-1) sleep 600;; esac; echo done > "$PERDURE_OUTPUT_DIR/artifacts/out.txt"',
];
it('"Verification Commands" work as written, and so does the list of "Evidence Artifacts"', async () => {
  expect(existsSync(PROGRAM), "this runs the built program: npm run build").toBe(true);
  const place = newPlace();
  const port = String(await freePort());
  const env = {
    ...{ PERDURE_OPAL_ENGINE: JSON.stringify(ENGINE), OPAL_RETRY_BACKOFFS: "[3, 0.5]", PATH: pathWithJq(place.cwd) },
    ...{ OPAL_LEASE_TTL_SECS: "4", OPAL_LEASE_RENEW_SECS: "1" },
  };
  const options = ["--opal-runtime", "runtime", "--opal-anonymous", "--workers", "2", "--concurrency", "1"];
  const server = start(place, ["up", "--port", port, ...options], env);
  await server.untilPrinted("Ctrl-C stops it");
  const sh = (command: string) =>
    execFileSync("/bin/sh", ["-c", command.replace("7001", port)], { cwd: place.cwd, env, encoding: "utf8" });
  const lease = (id: string) => {
    const file = join(place.cwd, "runtime/job_leases", `${id}.json`);
    return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { worker_id: string; attempt: number }) : null;
  };
  const status = (id: string) => JSON.parse(sh("curl -sS http://127.0.0.1:7001/api/jobs"))[id].status;
  /** "Kill worker holding lease (kill -9 <pid>)". */
  const killHolder = async (id: string, attempt: number) => {
    await expect.poll(() => lease(id)?.attempt).toBe(attempt);
    process.kill(Number(/-(\d+)$/.exec(lease(id)?.worker_id ?? "")?.[1]), "SIGKILL");
  };

  sh(`curl -sS -F prompt=SLEEP_TEST_20s_RETRY -F job_id=${RETRIED} http://127.0.0.1:7001/api/jobs`);
  sh(`curl -sS -F prompt=SLEEP_TEST_30s_FAIL_MAX -F job_id=${SPENT} http://127.0.0.1:7001/api/jobs`);
  await killHolder(RETRIED, 1);
  await killHolder(SPENT, 1);
  await killHolder(SPENT, 2);
  await expect.poll(() => [status(RETRIED), status(SPENT)]).toEqual(["succeeded", "failed"]);
  await expect.poll(() => readdirSync(join(place.cwd, "runtime/job_leases"))).toEqual([]);
  await expect.poll(() => sh(COMMANDS.reclaims).trim().split("\n").length).toBe(3);

  const line = (id: string, end: string) => expect.stringContaining(`"event":"[Lease] ♻️ Reclaiming job ${id} ${end}"}`);
  const found = sh(COMMANDS.reclaims).trim().split("\n");
  for (const each of found) {
    expect(each).toMatch(
      /^runtime\/logs\/worker_pool\/worker_.+\.log:\{"timestamp":"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}","level":"WARNING","worker":".+",/,
    );
  }
  expect(found).toEqual(
    expect.arrayContaining([
      line(RETRIED, "(Attempt 1/2) -> QUEUED (backoff=0.5s)"),
      line(SPENT, "(Attempt 1/2) -> QUEUED (backoff=0.5s)"),
      line(SPENT, "(Attempt 2/2) -> FAILED (max_retries_exceeded_a2)"),
    ]),
  );
  expect(JSON.parse(sh(COMMANDS.attempts))).toEqual({
    ...{ job_id: SPENT, attempts: 2, updated_at: expect.stringMatching(/Z$/), not_before: null },
    backoff_secs_applied: null,
    reclaim: { reclaimed_by: expect.any(String), reclaimed_at: expect.stringMatching(/Z$/), reason: "lease_expired" },
  });
  // "attempt_1/ (empty - killed before completion), attempt_2/ (contains final outputs)"
  await expect.poll(() => sh(COMMANDS.outputs)).toContain("out.txt");
  const base = `runtime/opal_artifacts/${RETRIED}/`;
  expect(sh(COMMANDS.outputs).trim()).toBe(
    [
      `${base}:\nattempt_1\nattempt_2`,
      `${base}attempt_1:\nartifacts\nresult.json`,
      `${base}attempt_1/artifacts:`,
      `${base}attempt_2:\nartifacts\nresult.json`,
      `${base}attempt_2/artifacts:\nout.txt`,
    ].join("\n\n"),
  );
  expect(JSON.parse(sh(COMMANDS.parity))).toEqual([RETRIED, SPENT]);
  expect(
    sh(
      "ls runtime/logs/worker_pool/worker_*.log runtime/job_attempts/job_*.json runtime/opal_artifacts/job_*/attempt_*/",
    ),
  ).toContain("result.json");
  server.kill("SIGINT");
  expect((await server.ended).code).toBe(0);
});
