/** What continues through an outage of the server: results, events, reads and submits with a key. */
import { describe, expect, it, onTestFinished } from "vitest";
import { type PerdureEvent, task } from "../../src/client/index.ts";
import { type ClientKit, openKit } from "./kit.ts";

const echo = task("echo", (input: number) => input);

async function newKit(): Promise<ClientKit> {
  const kit = await openKit();
  onTestFinished(() => kit.close());
  return kit;
}

describe("through a restart of the server", () => {
  it("results are waited for, also of jobs that ended meanwhile", async () => {
    const kit = await newKit();
    const { client, embedded } = kit;
    const jobs = await Promise.all([1, 2, 3].map((n) => client.submit(echo, n)));
    const held = kit.nextCall("/jobs/wait");
    const results = jobs.map((job) => job.result());
    const refused = expect(jobs[0]?.result({ timeout: "50ms" })).rejects.toMatchObject({ code: "result_timeout" });
    await held;
    const again = kit.nextCall("/jobs/wait");
    await kit.stop();
    await again; // the wait without an answer
    await refused;
    await embedded.work([echo]);
    for (const job of jobs) await (await embedded.job(job.id)).result();
    await kit.start();
    expect(await Promise.all(results)).toEqual([1, 2, 3]);
  });

  it("events are followed, without gaps or repeats", async () => {
    const kit = await newKit();
    const { client, embedded } = kit;
    const controller = new AbortController();
    const seen: PerdureEvent[] = [];
    let reached = (_: number) => {};
    const until = (seq: number) =>
      new Promise<void>((resolve) => {
        reached = (at) => at >= seq && resolve();
        reached(seen.at(-1)?.seq ?? 0);
      });
    const lastSeq = async () => {
      let last = 0;
      for await (const { seq } of embedded.events()) last = seq;
      return last;
    };
    const following = (async () => {
      for await (const event of client.events({ follow: true, signal: controller.signal })) {
        seen.push(event);
        reached(event.seq);
      }
    })();
    await embedded.submitMany(Array.from({ length: 1_200 }, (_, n) => ({ task: echo, input: n })));
    await until(await lastSeq());
    for (let round = 0; round < 2; round++) {
      const again = kit.nextCall("/events");
      await kit.stop();
      await embedded.submitMany(Array.from({ length: 50 }, (_, n) => ({ task: echo, input: n })));
      await again;
      await kit.start();
      await embedded.submit(echo, -1);
      await until(await lastSeq());
    }
    controller.abort();
    await following;
    const all: PerdureEvent[] = [];
    for await (const event of embedded.events()) if (event.seq <= (seen.at(-1)?.seq ?? 0)) all.push(event);
    expect(seen.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq));
    expect(seen).toEqual(all);
  });

  it("looks and submits with a key are answered when it is back, a submit without one is not made twice", async () => {
    const kit = await newKit();
    const { client } = kit;
    await kit.stop();
    const tried = kit.nextCall("/v1/jobs");
    const submitted = client.submit(echo, 1, { key: "once" });
    await tried;
    await expect(client.submit(echo, 2)).rejects.toMatchObject({ code: "server_unreachable" });
    const looked = client.queues();
    const hasty = await kit.connect({ patience: 0 });
    await expect(hasty.queues()).rejects.toMatchObject({ code: "server_unreachable" });
    await kit.start();
    expect((await submitted).created).toBe(true);
    await looked;
    expect((await client.jobs()).jobs.map(({ payload }) => payload)).toEqual([1]);
  });

  it("a wait ends when the token is revoked, and when the client is closed", async () => {
    const kit = await newKit();
    const { client } = kit;
    const { token, info } = await client.admin.createToken({ name: "short", scopes: ["read", "submit"] });
    const other = await kit.connect({ token });
    const job = await other.submit(echo, 1);
    const held = kit.nextCall("/jobs/wait");
    const result = expect(job.result()).rejects.toMatchObject({ code: "unauthorized" });
    await held;
    await client.admin.revokeToken(info.id);
    await kit.stop();
    await kit.start();
    await result;
    const pending = expect((await client.job(job.id)).result()).rejects.toMatchObject({ code: "closed" });
    const following = client.events({ follow: true })[Symbol.asyncIterator]();
    const rest = expect(
      (async () => {
        while (!(await following.next()).done);
      })(),
    ).rejects.toMatchObject({ code: "closed" });
    await client.close();
    await pending;
    await rest;
  });
});
