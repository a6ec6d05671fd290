/** Whole playbooks of NoETL run unchanged: our own texts, with the structure of the playbooks in NoETL's repository. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { noetlLine, noetlTimeline } from "../../src/dialects/noetl/view.ts";
import { realEngine, runPlaybook, serveAnswers, stepOf, timelineOf, virtualEngine } from "./noetl-playbook-kit.ts";

const noPython = spawnSync("python3", ["--version"]).status !== 0;

const retried = (retry: string) => `
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: retried, path: tests/retried }
workload: { test_url: "http://127.0.0.1:1/status" }
workflow:
  - step: start
    desc: Ask, and ask again
    tool: http
    method: GET
    url: "{{ workload.test_url }}"
    retry: ${retry}
    next:
      - step: end
  - step: end
    desc: Done
`;

describe("retries of requests", () => {
  it("by their status, until the attempts are used up", async () => {
    const { url, asked } = await serveAnswers(503);
    const ran = await runPlaybook(
      await virtualEngine(),
      retried(
        '{ max_attempts: 3, initial_delay: 0.5, max_delay: 5.0, retry_when: "{{ status_code >= 500 and status_code < 600 }}" }',
      ),
      { test_url: url },
    );
    expect(asked).toHaveLength(3);
    expect(ran.info).toMatchObject({ state: "failed" });
    expect(ran.steps).toEqual([expect.stringContaining("start failed: HTTP 503")]);
    expect((await timelineOf(ran)).map(({ event_type }) => event_type)).toEqual([
      ...["execution_start", "step_started", "action_started", "action_error", "step_retry", "action_started"],
      ...["action_error", "step_retry", "action_started", "action_error", "step_retry_exhausted"],
      ...["step_failed_terminal", "execution_failed"],
    ]);
    const { heads, rows } = noetlTimeline(await timelineOf(ran));
    expect(heads).toEqual(["#", "AT", "STATUS", "STEP", "EVENT"]);
    expect(rows[3]?.slice(2)).toEqual(["FAILED", "start", expect.stringContaining('error="HTTP 503')]);
    expect(rows.at(-1)?.slice(2)).toEqual([
      ...["FAILED", "retried", expect.stringContaining('execution_failed (reason=step, step=start, error="step')],
    ]);
  });

  it("with a condition that stops them", async () => {
    const { url, asked } = await serveAnswers(404, 200);
    const ran = await runPlaybook(
      await virtualEngine(),
      retried(
        '{ max_attempts: 3, initial_delay: 0.5, retry_when: "{{ status_code != 200 }}", stop_when: "{{ status_code == 200 }}" }',
      ),
      { test_url: url },
    );
    expect(asked).toHaveLength(2);
    expect(ran.info).toMatchObject({ state: "succeeded" });
    expect(await stepOf(ran, "start")).toMatchObject({ attempt: 2, output: { status_code: 200, body: { asked: 2 } } });
  });

  it("in their short forms", async () => {
    const { url, asked } = await serveAnswers(503, 503, 200, 503, 503, 503, 503, 200, 200);
    const step = (name: string, retry: string, next: string) => `
  - step: ${name}
    tool: http
    method: GET
    url: "{{ workload.test_url }}"
    retry: ${retry}
    next:
      - step: ${next}`;
    const ran = await runPlaybook(
      await virtualEngine(),
      `
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: simple, path: tests/simple }
workload: { test_url: "http://127.0.0.1:1" }
workflow:
  - step: start
    next:
      - step: yes_or_no${step("yes_or_no", "true", "number")}${step("number", "5", "all_fields")}${step("all_fields", '{ max_attempts: 3, jitter: true, retry_when: "{{ status_code >= 500 }}", stop_when: "{{ status_code == 200 }}" }', "end")}
  - step: end
`,
      { test_url: url },
    );
    expect(ran.info).toMatchObject({ state: "succeeded" });
    expect(ran.steps).toEqual(["start", "yes_or_no", "number", "all_fields", "end"].map((name) => `${name} succeeded`));
    const attempts = await Promise.all(["yes_or_no", "number", "all_fields"].map((name) => stepOf(ran, name)));
    expect(attempts.map(({ attempt }) => attempt)).toEqual([3, 5, 1]);
    expect(asked).toHaveLength(9);
  });
});

const HELLO = `
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: hello, path: tests/hello }
workload: { message: "Good morning" }
workflow:
  - step: start
    next:
      - step: greet
        args: { message: "{{ workload.message }}" }
  - step: greet
    type: python
    code: |
      def main(message):
          print(message)
          return {"status": "success", "data": {"message": message}}
    next:
      - step: end
  - step: end
    type: end
    save:
      type: event_log
      args: { status: "success", message: "{{ greet.result.data.message }}" }
`;

it.skipIf(noPython)("hello world: what `end` saves in the event log is the result", async () => {
  const { info, steps } = await runPlaybook(await realEngine(), HELLO);
  expect(steps).toEqual(["start succeeded", "greet succeeded", "end succeeded"]);
  expect(info).toMatchObject({ state: "succeeded", result: { status: "success", message: "Good morning" } });
});

/** Names of its parts are ours. `{who}` takes its place in the code. */
const BRANCHES = `
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: branches, path: tests/branches }
workload: { temperature_c: 30 }
workbook:
  - name: flag
    tool: python
    assert: { expects: [temperature_c], returns: [is_hot, message] }
    code: |
      def main(temperature_c):
          hot = float(temperature_c) >= 25.0
          return {"is_hot": hot, "message": "hot" if hot else "cold"}
workflow:
  - step: start
    next: [{ step: evaluate }]
  - step: evaluate
    tool: workbook
    name: flag
    args: { temperature_c: "{{ workload.temperature_c }}" }
    next:
      - { when: "{{ result.is_hot == true }}", step: hot_path }
      - { when: "{{ result.is_hot == false }}", step: cold_path }
  - step: hot_path
    tool: router
    next: [{ step: hot_task_a }, { step: hot_task_b }]
  - { step: hot_task_a, tool: shell, command: "echo '{\\"who\\": \\"A\\"}'", next: [{ step: end }] }
  - { step: hot_task_b, tool: shell, command: "echo '{\\"who\\": \\"B\\"}'", next: [{ step: end }] }
  - step: cold_path
    tool: router
    next: [{ step: cold_task }]
  - { step: cold_task, tool: shell, command: "echo '{\\"who\\": \\"C\\"}'", next: [{ step: end }] }
  - step: end
    result: { hot: "{{ evaluate.is_hot }}" }
`;

describe.skipIf(noPython)("branches with a workbook", () => {
  it("30 degrees: A and B start together, and `end` runs once, after both", async () => {
    const ran = await runPlaybook(await realEngine(), BRANCHES);
    expect(ran.info).toMatchObject({ state: "succeeded", result: { hot: true } });
    expect(ran.steps).toEqual(
      ["start", "evaluate", "hot_path", "hot_task_a", "hot_task_b", "end"].map((name) => `${name} succeeded`),
    );
    expect(await stepOf(ran, "hot_task_b")).toMatchObject({ output: { who: "B" } });
    const rows = (await timelineOf(ran)).map(({ event_type, node_name }) => `${node_name} ${event_type}`);
    const at = (row: string) => rows.indexOf(row);
    expect(at("hot_task_b step_started")).toBeLessThan(at("hot_task_a action_started"));
    expect(rows.filter((row) => row === "end step_started")).toHaveLength(1);
    expect(at("end step_started")).toBeGreaterThan(
      Math.max(at("hot_task_a step_completed"), at("hot_task_b step_completed")),
    );
  });

  it("20 degrees: only C", async () => {
    const { info, steps } = await runPlaybook(await realEngine(), BRANCHES, { temperature_c: 20 });
    expect(info).toMatchObject({ state: "succeeded", result: { hot: false } });
    expect(steps).toEqual(["start", "evaluate", "cold_path", "cold_task", "end"].map((name) => `${name} succeeded`));
  });
});

describe("the example of NoETL's document, with the step that follows", () => {
  const example = readFileSync("examples/noetl/fetch-and-process.yaml", "utf8");

  const request = example
    .slice(0, example.indexOf("  - step: process_data"))
    .replace("step: process_data", "step: end");

  it.skipIf(noPython)("its answer is processed", async () => {
    const { url } = await serveAnswers({ total: 3 });
    const ran = await runPlaybook(await realEngine(), example, { url });
    expect(ran.steps).toEqual(["fetch_data", "process_data", "end"].map((name) => `${name} succeeded`));
    expect(ran.info).toMatchObject({ state: "succeeded", result: { received: { total: 3 } } });
  });

  it("nine events of the request, if its third attempt succeeds", async () => {
    const { url } = await serveAnswers(503, 503, { total: 3 });
    const ran = await runPlaybook(await virtualEngine(), request, { url });
    const error = expect.stringMatching(/^action_error \(attempt=[12], error="HTTP 503 from http:/);
    expect((await timelineOf(ran, "fetch_data")).map(noetlLine)).toEqual([
      "action_started (attempt=1)",
      error,
      "step_retry (attempt=1, delay=1.0s)",
      "action_started (attempt=2)",
      error,
      "step_retry (attempt=2, delay=2.0s)",
      "action_started (attempt=3)",
      "action_completed (attempt=3, success=True)",
      "step_completed",
    ]);
  });

  it("eleven events, if all of three attempts fail", async () => {
    const { url } = await serveAnswers(503);
    const ran = await runPlaybook(await virtualEngine(), request.replace("max_attempts: 5", "max_attempts: 3"), {
      url,
    });
    expect(ran.info).toMatchObject({ state: "failed", reason: "step" });
    expect((await timelineOf(ran, "fetch_data")).map((event) => noetlLine(event).replace(/, error=.*\)/, ")"))).toEqual(
      [
        "action_started (attempt=1)",
        "action_error (attempt=1)",
        "step_retry (attempt=1, delay=1.0s)",
        "action_started (attempt=2)",
        "action_error (attempt=2)",
        "step_retry (attempt=2, delay=2.0s)",
        "action_started (attempt=3)",
        "action_error (attempt=3)",
        "step_retry_exhausted (attempts=3, max_attempts=3)",
        "step_failed_terminal",
        "execution_failed",
      ],
    );
  });
});
