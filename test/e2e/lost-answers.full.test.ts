/** A network that loses answers between the server and its clients. Nothing is done twice: a submit with a key creates
 *  one job, a repeated claim returns the same jobs, and no attempt has to wait for the end of its lease. */
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Dice } from "../dice.ts";
import { SEED } from "../tier.ts";
import { type Exchange, startCuttingProxy } from "./cutting-proxy.ts";
import { drained, reckon, tally } from "./final-check.ts";
import { connect, linesIn, newHome, output, Server, sh, TEST_MS, worker } from "./kit.ts";
import { runsOf, startSubmitters } from "./submitters.ts";

const JOBS = 120;

it("does everything once even if one answer in five is lost", { timeout: TEST_MS }, async () => {
  console.log(`lost answers: PERDURE_SEED=${SEED}`);
  const effects = join(newHome(), "effects");
  const server = await Server.start();
  let claims = 0;
  const isClaimToLose = ({ path, answer }: { readonly path: string; readonly answer: string }) =>
    path.endsWith("/claims") && /"jobs":\[\{/.test(answer) && claims++ % 4 === 0;
  const proxy = await startCuttingProxy(server.url, new Dice(SEED), 0.2, isClaimToLose);
  onTestFinished(() => proxy.close());
  const client = await connect(proxy.url, server.token);
  const workers = await Promise.all(
    ["a", "b"].map((name) => worker(server, { url: proxy.url, args: ["--name", name] })),
  );

  const submitters = startSubmitters({ clients: [client], effects, everyMs: 5, limit: JOBS });
  const large = await client.submit("exec", sh("seq 1 100000"), { key: "large" });
  await submitters.stop();
  expect(await large.result()).toMatchObject({ exitCode: 0 });
  await drained(await connect(server.url, server.token));
  // The held jobs end now, and nothing waits for a lost answer.
  for (const { proc } of workers) expect(await proc.stop()).toBe(0);
  proxy.share = 0;
  console.log(`lost answers: ${JSON.stringify(proxy.counts)}`);
  expect(proxy.counts.cutAfter).toBeGreaterThan(10);

  const audited = await reckon(client, submitters.acknowledged);
  expect(submitters.twice).toEqual([]);
  expect(audited.jobs.size).toBe(JOBS + 1);
  expect(tally(audited)).toEqual({ attempts: runsOf(JOBS) + 1, lost: 0, unsuccessful: [] });
  const runs = linesIn(effects);
  expect(new Set(runs).size).toBe(runs.length);
  expect(runs).toHaveLength(runsOf(JOBS));

  expect((await output(client, large.id, 1, "stdout.log"))?.trimEnd().split("\n")).toHaveLength(100_000);
  for (const [key, id] of submitters.acknowledged) {
    const n = Number(key.slice(4));
    if (n % 5 === 4) expect(await output(client, id, 1, "stdout.log")).toBe(`out ${n}\n`);
  }
  expectSameJobs(proxy.exchanges.filter(({ path, status }) => path.endsWith("/claims") && status === 200));
});

/** After a claim was answered with jobs, every repeat gets the same answer. */
function expectSameJobs(claims: readonly Exchange[]): void {
  const given = new Map<string, { readonly jobs: string[]; readonly wasCut: boolean }>();
  let repeated = 0;
  for (const { body, answer, wasCut } of claims) {
    const { claimId } = JSON.parse(body) as { claimId: string };
    const { jobs } = JSON.parse(answer) as { jobs: readonly { id: string; attempt: number }[] };
    const told = jobs.map(({ id, attempt }) => `${id} ${attempt}`).sort();
    const before = given.get(claimId);
    if (before !== undefined) {
      expect(before.wasCut, "only claims without an answer are repeated").toBe(true);
      expect(told).toEqual(before.jobs);
      repeated += 1;
    }
    if (told.length > 0) given.set(claimId, { jobs: told, wasCut });
  }
  expect(repeated).toBeGreaterThan(0);
}
