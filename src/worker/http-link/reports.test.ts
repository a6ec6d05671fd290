import { describe, expect, it } from "vitest";
import type { Asked } from "../../../test/http-worker/fake-server.ts";
import { ACCEPTED, done, openLink, REQUEST, refusal } from "../../../test/http-worker/link-kit.ts";
import { gate } from "../../../test/kit.ts";
import { failure } from "../../core/decision/failure.ts";
import type { WorkerHealth } from "../../core/worker-protocol.ts";

const accepted = ({ body }: Asked) => ({ json: { answers: body.reports.map(() => ACCEPTED) } });
const idsOf = ({ body }: Asked) => body.reports.map((each: { reportId: string }) => each.reportId);

describe("reports", () => {
  it("of one tick go together, at most a thousand in a call", async () => {
    const { link, server, session } = await openLink(accepted);
    const answers = await Promise.all(Array.from({ length: 2_500 }, (_, n) => link.report(done(n), session)));
    expect(answers).toHaveLength(2_500);
    expect(server.asked.map(({ body }) => body.reports.length)).toEqual([1_000, 1_000, 500]);
    expect(server.asked[0]?.body.reports[3]).toEqual({
      ...{ jobId: "job_3", attempt: 1, token: "t3", reportId: "r3", outcome: { kind: "completed", result: "3" } },
    });
  });

  it("of a run that waits for its children name them", async () => {
    const { link, server, session } = await openLink(accepted);
    const outcome = { kind: "waiting", children: ["job_8", "job_9"] } as const;
    await link.report(done(1, { outcome }), session);
    expect(server.asked[0]?.body.reports[0].outcome).toEqual(outcome);
  });

  it("that come while a call is under way go with the next", async () => {
    const [taken, go] = [gate(), gate()];
    const { link, server, session } = await openLink(async (asked) => {
      taken.open();
      await go.passed;
      return accepted(asked);
    });
    const first = link.report(done(0), session);
    await taken.passed;
    const others = [1, 2, 3].map((n) => link.report(done(n), session));
    go.open();
    await Promise.all([first, ...others]);
    expect(server.asked.map(idsOf)).toEqual([["r0"], ["r1", "r2", "r3"]]);
  });

  it("are split where they are large", async () => {
    const { link, server, session } = await openLink(accepted);
    const result = JSON.stringify("x".repeat(1_000_000));
    const large = (n: number) => done(n, { outcome: { kind: "completed", result } });
    await Promise.all([0, 1, 2, 3, 4].map((n) => link.report(large(n), session)));
    expect(server.asked.map(({ body }) => body.reports.length)).toEqual([4, 1]);
  });

  it("whose reply was lost are repeated with the same ids until they are answered", async () => {
    const answers = [
      "cut",
      refusal(500, "internal"),
      refusal(503, "store_unavailable", { "retry-after": "1" }),
    ] as const;
    let turn = 0;
    const { link, server, session } = await openLink((asked) => answers[turn++] ?? accepted(asked));
    const [a, b] = await Promise.all([link.report(done(1), session), link.report(done(2), session)]);
    expect([a, b]).toEqual([ACCEPTED, ACCEPTED]);
    // The first was cut on a kept connection, which is tried again at once.
    expect(server.asked.map(idsOf)).toEqual([
      ["r1", "r2"],
      ["r1", "r2"],
      ["r1", "r2"],
      ["r1", "r2"],
    ]);
  });

  it("that the server cannot read do not hold up the others", async () => {
    const { link, session } = await openLink((asked) => {
      return idsOf(asked).includes("r5") ? refusal(400, "invalid_request") : accepted(asked);
    });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => link.report(done(n), session)));
    expect(answers[5]).toMatchObject({ status: "refused", code: "invalid_request" });
    expect(answers.filter(({ status }) => status === "accepted")).toHaveLength(11);
  });

  it("keep to the limits of the wire", async () => {
    const { link, server, session } = await openLink(accepted);
    const long = "é".repeat(200_000);
    const cause = failure({
      kind: "exit",
      message: long,
      stack: long,
      name: long,
      exitCode: 4_294_967_295,
      status: 1.5,
    });
    await Promise.all([
      link.report(done(1, { outcome: { kind: "failed", failure: cause } }), session),
      link.report(done(2, { outcome: { kind: "completed", result: JSON.stringify("x".repeat(1_048_576)) } }), session),
    ]);
    const [failed, large] = server.asked[0]?.body.reports ?? [];
    expect(failed.outcome.failure.message).toHaveLength(100_000);
    expect(failed.outcome.failure).toMatchObject({ exitCode: null, status: null });
    expect(large.outcome).toMatchObject({ kind: "failed", failure: { kind: "result", class: "logical" } });
  });

  it("of a session that the server does not know are stale", async () => {
    const { link, session } = await openLink(() => refusal(404, "not_found"));
    expect(await link.report(done(1), session)).toEqual({ status: "stale", recorded: null });
  });

  it("of an earlier session whose key is refused are given up when a new one was opened", async () => {
    const taken = gate();
    const { link, session } = await openLink(() => {
      taken.open();
      return refusal(403, "forbidden");
    });
    const report = link.report(done(1), session);
    await taken.passed;
    await link.openSession(REQUEST);
    expect(await report).toEqual({ status: "stale", recorded: null });
  });

  it("that wait when the link is closed end as closed", async () => {
    const taken = gate();
    const { link, session } = await openLink(() => {
      taken.open();
      return "hang";
    });
    const reports = [link.report(done(1), session)];
    await taken.passed;
    reports.push(link.report(done(2), session));
    link.close();
    const closed = { code: expect.stringMatching(/closed|unreachable/) };
    await Promise.all(reports.map((report) => expect(report).rejects.toMatchObject(closed)));
  });
});

const HEALTH: WorkerHealth = {
  ...{ consecutiveFailures: 1, total: 9, failed: 2, averageMs: 3.5, inHand: 1, slots: 10, load: 0.5 },
};

describe("a renewal", () => {
  it("sends held attempts and health, and returns losses, cancels and a drain", async () => {
    const json = { alive: true, leaseMs: 15_000, drain: true, lost: [], cancel: [{ jobId: "job_1", attempt: 1 }] };
    const { link, server, session } = await openLink(() => ({ json }));
    const answer = await link.renew(session, [{ jobId: "job_1", attempt: 1, log: "a line\n" }], HEALTH);
    // A server of an earlier version does not return `overspent`.
    expect(answer).toEqual({ ...json, overspent: [], unheard: [] });
    expect(server.asked[0]?.body).toMatchObject({
      held: [{ jobId: "job_1", attempt: 1, log: "a line\n" }],
      health: { consecutive_failures: 1, total: 9, failed: 2, average_ms: 3.5, in_hand: 1, slots: 10, load: 0.5 },
    });
  });

  it("hears which jobs have spent their budget", async () => {
    const overspent = [{ jobId: "job_1", attempt: 1 }];
    const json = { alive: true, leaseMs: 15_000, drain: false, lost: [], cancel: [], overspent };
    const { link, session } = await openLink(() => ({ json }));
    expect(await link.renew(session, [], HEALTH)).toMatchObject({ alive: true, overspent });
  });

  it("is tried once; the session is over where the server does not know it", async () => {
    const answers = [refusal(503, "overloaded"), refusal(404, "not_found")];
    const { link, server, session } = await openLink(() => answers.shift() ?? "cut");
    await expect(link.renew(session, [], HEALTH)).rejects.toMatchObject({ code: "overloaded" });
    expect(await link.renew(session, [], HEALTH)).toMatchObject({ alive: false });
    expect(server.asked).toHaveLength(2);
  });
});

describe("notices", () => {
  it("report each cancel and a drain once, even if the server repeats them", async () => {
    const cancel = [{ jobId: "job_1", attempt: 2 }];
    const answers = [
      { json: { alive: true, drain: false, cancel: [] } },
      { json: { alive: true, drain: false, cancel } },
      { json: { alive: true, drain: true, cancel } },
      { json: { alive: true, drain: true, cancel } },
    ];
    const quiet = gate();
    const { link, session, clock } = await openLink(() => {
      const next = answers.shift();
      if (next === undefined) quiet.open();
      return next ?? "hang";
    });
    const calls: string[] = [];
    link.onDrain?.(session, () => calls.push("drain"));
    const stop = link.onCancel(session, (jobId, attempt) => calls.push(`${jobId}.${attempt}`));
    await quiet.passed;
    expect(calls.filter((each) => each === "drain")).toEqual(["drain"]);
    expect(calls).toContain("job_1.2");
    expect(clock.pauses).toEqual([1_000]); // before asking again, when there was nothing new
    stop();
  });

  it("end with the session, and resume after an outage", async () => {
    const answers = [refusal(500, "internal"), "cut" as const, { json: { alive: false, drain: false, cancel: [] } }];
    const { link, server, session } = await openLink(() => answers.shift() ?? "hang");
    link.onCancel(session, () => {});
    while (answers.length > 0) await new Promise((resolve) => setImmediate(resolve));
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(server.of("/notices").length).toBeLessThanOrEqual(4);
  });
});

describe("closing a session", () => {
  it("is tried once and never fails", async () => {
    const { link, server, session, logged } = await openLink(() => refusal(500, "internal"));
    await link.closeSession(session);
    expect(server.asked).toMatchObject([{ method: "DELETE", path: "/v1/sessions/ses_1" }]);
    expect(logged[0]).toContain('cannot close the session session="ses_1"');
  });
});
