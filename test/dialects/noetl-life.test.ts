/** Events of a job that NoETL's document does not have, in its timeline and its queue. */
import { describe, expect, it } from "vitest";
import type { JobEvent } from "../../src/core/job/event.ts";
import { playedOutcomes } from "../../src/core/simulate/played-outcome.ts";
import { scripted, simulate } from "../../src/core/simulate/simulate.ts";
import { noetl } from "../../src/dialects/noetl/dialect.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { openStage, readContext, STORES, type Stage } from "./kit.ts";
import { events, line, types } from "./noetl-kit.ts";

describe.each(STORES)("a NoETL task on %s", (store) => {
  async function apply(document: string): Promise<{ stage: Stage; id: string }> {
    const stage = await openStage(store);
    const [id = ""] = await stage.apply(noetl, document);
    return { stage, id };
  }

  const SLOW = "step: slow\ntype: shell\ncommand: sleep 60\ntimeout: 30\nretry: 2\n";

  it("a timeout is an error, and retried", async () => {
    const { stage, id } = await apply(SLOW);
    await stage.run(id, "timeout");
    expect(await stage.run(id, "timeout")).toMatchObject({ state: "failed", reason: "timeout" });
    const shown = await events(stage, id);
    expect(shown.slice(1, 3).map(line)).toEqual([
      'action_error (attempt=1, error="timed out after 30 s")',
      "step_retry (attempt=1, delay=1.0s)",
    ]);
    expect(shown.at(-3)?.event_type).toBe("step_retry_exhausted");
    expect(shown.at(-1)?.context).toEqual({ reason: "timeout" });
  });

  it("a command that fails has its exit code", async () => {
    const { stage, id } = await apply(SLOW);
    await stage.run(id, { exit: 7, stderr: "no route" });
    expect((await events(stage, id))[1]).toMatchObject({
      ...{ context: { attempt: 1, exit_code: 7 }, error: "exit code 7: no route", node_type: "shell" },
    });
  });

  it("cancelled while it runs, and while it waits", async () => {
    const { stage, id } = await apply(SLOW);
    const started = await stage.start(id);
    await stage.engine.command(id, { kind: "cancel", by: "ada" });
    await started.end({ error: "cancelled" });
    expect(await types(stage, id)).toEqual([
      ...["action_started", "execution_cancel_requested", "action_error", "execution_cancelled"],
    ]);
    expect(await stage.view(noetl, id)).toMatchObject({ status: "dead", attempts: 1 });

    const { stage: other, id: waiting } = await apply(SLOW);
    await other.run(waiting, { exit: 1 });
    await other.engine.command(waiting, { kind: "cancel", by: "ada" });
    const [last] = (await events(other, waiting)).slice(-1);
    expect(last).toMatchObject({ event_type: "execution_cancelled", status: "CANCELLED", context: { by: "ada" } });
  });

  it("a redrive starts the counting again", async () => {
    const { stage, id } = await apply(SLOW);
    await stage.run(id, { exit: 1 });
    await stage.run(id, { exit: 1 });
    await stage.engine.command(id, { kind: "discard", by: "ada" });
    await stage.engine.command(id, { kind: "redrive", by: "ada" });
    expect(await stage.view(noetl, id)).toMatchObject({
      ...{ status: "queued", attempts: 0, last_error: null, retry_delay_seconds: null },
    });
    await stage.run(id, { exit: 1 });
    expect(await stage.view(noetl, id)).toMatchObject({ status: "queued", attempts: 1, max_attempts: 2 });
    await stage.run(id, "ok");
    const shown = (await events(stage, id)).slice(8);
    expect(shown.map(line)).toEqual([
      "execution_discarded (by=ada)",
      "execution_restarted (by=ada, available_at=2030-01-01T00:00:01.000Z)",
      "action_started (attempt=1)",
      'action_error (attempt=1, error="exit code 1")',
      "step_retry (attempt=1, delay=1.0s)",
      "action_started (attempt=2)",
      "action_completed (attempt=2, success=True)",
      "step_completed",
    ]);
    expect(shown[1]?.context).toMatchObject({ by: "ada", chapter: 2 });
  });

  it("an operator's wish to retry now", async () => {
    const { stage, id } = await apply(SLOW);
    await stage.run(id, { exit: 1 });
    await stage.engine.command(id, { kind: "retry", by: null });
    expect((await events(stage, id)).at(-1)).toMatchObject({
      ...{ event_type: "step_rescheduled", context: { available_at: "2030-01-01T00:00:00.000Z" } },
    });
  });

  it("a returned attempt keeps its number, and nothing is retried", async () => {
    const { stage, id } = await apply(SLOW);
    await stage.run(id, { exit: 1 });
    await stage.run(id, "interrupted");
    expect(await stage.view(noetl, id)).toMatchObject({ status: "queued", attempts: 1, retry_delay_seconds: 1 });
    await stage.run(id, "ok");
    expect((await stage.job(id)).attempt).toBe(3);
    expect((await events(stage, id)).slice(3).map(line)).toEqual([
      "action_started (attempt=2)",
      "action_released (attempt=2, reason=interrupted, delay=0.0s)",
      "action_started (attempt=2)",
      "action_completed (attempt=2, success=True)",
      "step_completed",
    ]);
  });

  it("an attempt that waits for its children keeps its number, too", async () => {
    const { stage, id } = await apply(SLOW);
    const started = await stage.start(id);
    const child = await stage.submit({ task: "exec", input: { argv: ["true"] }, options: { parent: id } });
    await started.end({ waiting: [child] });
    expect(await stage.view(noetl, id)).toMatchObject({ status: "queued", attempts: 0, available_at: null });
    await stage.run(child, "ok");
    await stage.run(id, "ok");
    const shown = await events(stage, id);
    expect(shown.map(line)).toEqual([
      "action_started (attempt=1)",
      `step_waiting (attempt=1, waits_for=${child})`,
      "step_resumed (available_at=2030-01-01T00:00:00.000Z)",
      "action_started (attempt=1)",
      "action_completed (attempt=1, success=True)",
      "step_completed",
    ]);
    expect(shown[1]?.context).toEqual({ attempt: 1, waits_for: [child] });
  });

  describe("attempt in a condition is the one in the timeline", () => {
    const condition = (when: object) => {
      const retry = JSON.stringify({ max_attempts: 5, jitter: false, ...when });
      return `step: flaky\ntype: shell\ncommand: exit 1\nretry: ${retry}\n`;
    };
    const THRICE = condition({ retry_when: "{{ attempt < 3 }}" });
    const lines = async (stage: Stage, id: string) => (await events(stage, id)).map(line);
    const errors = (from: number, to: number) => {
      const all = Array.from({ length: to - from + 1 }, (_, n) => from + n);
      return all.flatMap((n) => [
        ...[`action_started (attempt=${n})`, `action_error (attempt=${n}, error="exit code 1")`],
        ...(n === to ? [] : [`step_retry (attempt=${n}, delay=${(2 ** (n - 1)).toFixed(1)}s)`]),
      ]);
    };

    it("after a redrive: it begins at 1 again", async () => {
      const { stage, id } = await apply(THRICE);
      for (const chapter of [1, 2]) {
        for (let run = 1; run < 3; run++) expect(await stage.run(id, { exit: 1 })).toMatchObject({ state: "queued" });
        expect(await stage.run(id, { exit: 1 })).toMatchObject({ reason: "rejected", attempt: 3 * chapter });
        if (chapter === 1) await stage.engine.command(id, { kind: "redrive", by: "ada" });
      }
      const rejected = ["step_failed_terminal (reason=rejected, decided_by=retry_when)", "execution_failed"];
      const restarted = "execution_restarted (by=ada, available_at=2030-01-01T00:00:03.000Z)";
      const shown = await lines(stage, id);
      expect(shown).toEqual([...errors(1, 3), ...rejected, restarted, ...errors(1, 3), ...rejected]);
      expect((await events(stage, id)).at(-2)?.context).toEqual({
        ...{ attempt: 3, reason: "rejected", decided_by: "retry_when" },
      });
    });

    it("after returned attempts, and a lost worker, which counts", async () => {
      const { stage, id } = await apply(condition({ retry_when: "{{ attempt < 4 }}" }));
      await stage.run(id, "interrupted");
      await stage.run(id, { exit: 1 });
      await stage.run(id, "interrupted");
      await stage.run(id, "gone");
      await stage.run(id, "interrupted");
      expect(await stage.run(id, { exit: 1 })).toMatchObject({ state: "queued", attempt: 6 });
      expect(await stage.run(id, { exit: 1 })).toMatchObject({ state: "failed", reason: "rejected", attempt: 7 });
      expect((await events(stage, id)).at(-2)?.context).toMatchObject({ attempt: 4, decided_by: "retry_when" });
    });

    it("after a wait for children, also of a stop_when that polls", async () => {
      const { stage, id } = await apply(condition({ retry_when: "{{ success }}", stop_when: "{{ attempt >= 2 }}" }));
      const started = await stage.start(id);
      const child = await stage.submit({ task: "exec", input: { argv: ["true"] }, options: { parent: id } });
      await started.end({ waiting: [child] });
      await stage.run(child, "ok");
      expect(await stage.run(id, "ok")).toMatchObject({ state: "queued", attempt: 2 });
      expect(await stage.run(id, "ok")).toMatchObject({ state: "failed", reason: "rejected", attempt: 3 });
      expect((await events(stage, id)).at(-2)?.context).toMatchObject({ attempt: 2, decided_by: "stop_when" });
    });

    it("and in a rule of a policy, wherever the job came from", async () => {
      const stage = await openStage(store);
      // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
      const rules = [{ if: { attempt: 3 }, then: "fail" }] as const;
      const retry = { maxAttempts: 9, backoff: { type: "none" }, rules } as const;
      const id = await stage.submit({ task: "exec", input: { argv: ["false"] }, options: { retry } });
      await stage.run(id, "interrupted");
      for (const chapter of [1, 2]) {
        for (let run = 1; run < 3; run++) expect(await stage.run(id, { exit: 1 })).toMatchObject({ state: "queued" });
        expect(await stage.run(id, { exit: 1 })).toMatchObject({ reason: "rejected", failures: 3, chapter });
        if (chapter === 1) await stage.engine.command(id, { kind: "redrive", by: null });
      }
    });

    it("and in a simulation", async () => {
      const { stage, id } = await apply(THRICE);
      const plays = ["interrupted", "gone", "interrupted", { exit: 1 }, { exit: 1 }] as const;
      for (const play of plays) await stage.run(id, play);
      const { policy, attempt, state, reason } = await stage.job(id);
      const words = playedOutcomes("interrupted,lost,interrupted,fail,fail,fail", "outcomes");
      const { end, events: simulated } = simulate({ policy, next: scripted(words) });
      expect(end).toMatchObject({ state, reason, attempts: attempt });
      expect([state, reason, attempt]).toEqual(["failed", "rejected", 5]);
      const decisions = (all: readonly JobEvent[]) => {
        return all.flatMap(({ data }) => ("decision" in data ? [[data.decision.step, data.decision.kind]] : []));
      };
      expect(decisions(simulated)).toEqual(decisions((await stage.parts(id)).events));
    });
  });

  it("no worker started it in time", async () => {
    const stage = await openStage(store);
    const [entry] = noetl.read(readYaml(SLOW, "slow.yaml").value, readContext()).jobs;
    const id = await stage.submit({
      ...(entry as NonNullable<typeof entry>),
      options: { ...entry?.options, expireIn: "1m" },
    });
    await stage.advance(60_001);
    expect((await events(stage, id)).map(line)).toEqual([
      'step_queue_timeout (attempt=1, reason=queue_timeout, error="no worker started it in time")',
      "step_retry (attempt=1, delay=1.0s)",
    ]);
    await stage.advance(61_001);
    expect(await types(stage, id)).toEqual([
      ...["step_queue_timeout", "step_retry", "step_queue_timeout"],
      ...["step_retry_exhausted", "step_failed_terminal", "execution_failed"],
    ]);
  });

  it("a job that is not from NoETL has a timeline and a row, too", async () => {
    const stage = await openStage(store);
    const retry = { maxAttempts: 2, backoff: { type: "fixed", delay: "5s" } } as const;
    const id = await stage.submit({ task: "exec", input: { argv: ["true"] }, options: { retry } });
    await stage.run(id, { exit: 1 });
    await stage.run(id, { exit: 1 });
    expect((await events(stage, id)).map(line).slice(1, 3)).toEqual([
      'action_error (attempt=1, error="exit code 1")',
      "step_retry (attempt=1, delay=5.0s)",
    ]);
    expect(await stage.view(noetl, id)).toMatchObject({
      ...{ node_id: "exec", node_name: "exec", node_type: "shell", status: "dead" },
      retry_config: { max_attempts: 2, retry_when: null, stop_when: null },
    });
    const plain = await stage.submit({ task: "import", input: null });
    expect(await stage.view(noetl, plain)).toMatchObject({ node_type: "import", retry_config: null, attempts: 0 });
  });
});
