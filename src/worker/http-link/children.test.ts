import { describe, expect, it } from "vitest";
import type { Answer, Asked } from "../../../test/http-worker/fake-server.ts";
import { openLink, REQUEST, refusal } from "../../../test/http-worker/link-kit.ts";
import { gate } from "../../../test/kit.ts";
import { type ChildState, type Family, type HeldParent, task } from "../../core/task/task.ts";

const parent: HeldParent = { jobId: "job_1", attempt: 2, namespace: "default", session: "ses_1", token: "t1" };
const child = (n: number, more: object = {}): ChildState => ({
  ...{ id: `job_${n}`, kind: "k", key: `#${n}`, state: "succeeded", reason: null, failure: null },
  ...{ payload: { n }, result: n },
  ...more,
});
const CREATED: Answer = { status: 201, json: { id: "job_9", created: true, chapter: 1, state: "queued" } };
const idsIn = ({ body }: Asked): string[] => body.ids;
const found = (asked: Asked): Answer => ({ json: { children: idsIn(asked).map((id) => child(Number(id.slice(4)))) } });

async function openFamily(answer: (asked: Asked) => Answer | Promise<Answer>) {
  const bench = await openLink(answer);
  return { ...bench, family: bench.link.family as Family };
}

describe("a child over HTTP", () => {
  it("is submitted as any job, in the name of the session and with the lease of its parent", async () => {
    const { family, server } = await openFamily(() => CREATED);
    const resize = task("resize", { timeout: "1m" }, (input: { url: string }) => input.url);
    const options = { key: "#1", priority: 3 };
    const made = await family.submit(parent, { task: resize, input: { url: "a" }, options });
    expect(made).toEqual({ id: "job_9", created: true });
    const [asked] = server.asked;
    expect(asked).toMatchObject({ method: "POST", path: "/v1/sessions/ses_1/jobs/job_1/children" });
    expect(asked?.headers).toMatchObject({ "perdure-session-key": "key_1", "perdure-lease": "t1" });
    expect(asked?.body).toEqual({
      ...{ kind: "resize", key: "#1", priority: 3, timeout: "1m", input: { url: "a" } },
      sources: { timeout: "task" },
    });
  });

  it("is sent again, the same, until there is an answer", async () => {
    const answers: Answer[] = ["cut", "cut", refusal(503, "overloaded"), refusal(500, "internal"), CREATED];
    const { family, server, logged } = await openFamily(() => answers.shift() ?? "cut");
    expect(await family.submit(parent, { task: "k", options: { key: "a" } })).toMatchObject({ id: "job_9" });
    expect(server.asked.length).toBeGreaterThanOrEqual(5);
    expect(new Set(server.asked.map(({ body }) => JSON.stringify(body))).size).toBe(1);
    expect(logged.at(-1)).toMatch(/^info: server answers again seconds=\d+ failedCalls=\d+$/);
  });

  it.each(["parent_ended", "lease_lost", "key_conflict", "invalid_config", "invalid_payload"] as const)(
    "that the server refuses is an error with its code: %s",
    async (code) => {
      const { family, server } = await openFamily(() => refusal(409, code));
      await expect(family.submit(parent, { task: "k", options: { key: "a" } })).rejects.toMatchObject({ code });
      expect(server.asked).toHaveLength(1);
    },
  );

  it("with a mistake in its options is refused before it is sent", async () => {
    const { family, server } = await openFamily(() => CREATED);
    const bad = { task: "k", options: { dealy: "1s" } } as never;
    await expect(family.submit(parent, bad)).rejects.toMatchObject({ code: "invalid_config" });
    expect(server.asked).toEqual([]);
  });

  it("of a session that has ended, or of another store, fails without retries", async () => {
    const { family, link, server } = await openFamily(({ path }) =>
      path.endsWith("/children") ? refusal(403, "forbidden") : CREATED,
    );
    await link.openSession(REQUEST);
    const old = family.submit(parent, { task: "k", options: { key: "a" } });
    await expect(old).rejects.toMatchObject({ code: "forbidden" });
    const unknown = family.submit({ ...parent, session: "ses_none" }, { task: "k", options: { key: "a" } });
    await expect(unknown).rejects.toMatchObject({ code: "lease_lost" });
    expect(server.of("/children")).toHaveLength(1);
  });

  it("is given up when the link is closed", async () => {
    const taken = gate();
    const { family, link } = await openFamily(() => {
      taken.open();
      return "hang";
    });
    const submitting = family.submit(parent, { task: "k", options: { key: "a" } });
    await taken.passed;
    link.close();
    await expect(submitting).rejects.toMatchObject({ code: expect.stringMatching(/closed|unreachable/) });
  });
});

describe("reading children over HTTP", () => {
  it("returns the requested children in order, a hundred per call", async () => {
    const { family, server } = await openFamily(found);
    const ids = Array.from({ length: 250 }, (_, n) => `job_${999 - n}`);
    const children = await family.look(parent, ids);
    expect(children.map(({ id }) => id)).toEqual(ids);
    expect(children[0]).toEqual(child(999));
    expect(server.asked.map((asked) => idsIn(asked).length)).toEqual([100, 100, 50]);
    expect(server.asked[0]).toMatchObject({ method: "POST", path: "/v1/sessions/ses_1/jobs/job_1/children/look" });
    expect(server.asked[0]?.headers).toMatchObject({ "perdure-session-key": "key_1", "perdure-lease": "t1" });
  });

  it("returns all without ids", async () => {
    const running = child(2, { state: "running", result: undefined });
    const { family, server } = await openFamily(() => ({ json: { children: [child(1), running] } }));
    expect(await family.list(parent)).toEqual([child(1), running]);
    expect(server.asked[0]?.body).toEqual({});
  });

  it("continues after a partial reply", async () => {
    const { family, server } = await openFamily((asked) => {
      if (asked.body.ids !== undefined)
        return { json: { children: [child(Number(idsIn(asked)[0]?.slice(4)))], next: null } };
      const n = Number(asked.body.cursor ?? 1);
      return { json: { children: [child(n)], next: n < 3 ? String(n + 1) : null } };
    });
    expect(await family.list(parent)).toEqual([child(1), child(2), child(3)]);
    expect(server.asked.map(({ body }) => body)).toEqual([{}, { cursor: "2" }, { cursor: "3" }]);
    const ids = ["job_4", "job_5", "job_6"];
    expect((await family.look(parent, ids)).map(({ id }) => id)).toEqual(ids);
    expect(server.asked.slice(3).map(idsIn)).toEqual([ids, ids.slice(1), ids.slice(2)]);
  });

  it("requests fewer after a reply that is too large", async () => {
    const { family, server } = await openFamily((asked) => {
      if (idsIn(asked).length < 3) return found(asked);
      return { text: " ".repeat(65 * 1_048_576), headers: { "content-type": "application/json" } };
    });
    const ids = ["job_1", "job_2", "job_3", "job_4"];
    expect((await family.look(parent, ids)).map(({ id }) => id)).toEqual(ids);
    expect(server.asked.map((asked) => idsIn(asked).length)).toEqual([4, 2, 2]);
  });

  it("that the server does not know as children of this job is an error with its code", async () => {
    const { family } = await openFamily(() => refusal(404, "job_not_found"));
    await expect(family.look(parent, ["job_5"])).rejects.toMatchObject({ code: "job_not_found" });
  });
});
