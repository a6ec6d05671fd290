import { describe, expect, it } from "vitest";
import {
  answered,
  completed,
  exited,
  failed,
  QUEUE_TIMEOUT,
  type TestJobFields,
  testJob,
  testRule,
  timedOut,
  waitingJob,
} from "../job/testing-job.ts";
import type { Policy, RuleCondition } from "../policy/policy.ts";
import { classify, type FailureOutcome, failureOf, polled } from "./classify.ts";
import { matchName } from "./match.ts";

type Row = [name: string, policy: Partial<Policy>, outcome: FailureOutcome, verdict: string, matched: string];

const EVERYTHING: Partial<RuleCondition> = { message: ["it"] };
const retryAll = testRule(EVERYTHING, "retry");
const failAll = testRule(EVERYTHING, "fail");
const NO_WAITS = [testRule({ kind: ["queue_timeout"] }, "fail")];
const OOM_RETRIES = [testRule({ kind: ["result"], message: ["worker_oom"] }, "retry")];
const oomReported = () => failed({ kind: "result", class: "logical", message: "worker_oom" });
const deferAll = testRule(EVERYTHING, "defer");

/** A command whose last line was taken for its message. */
const around = (stack: string) => failed({ kind: "exit", exitCode: 1, message: "exit code 1: giving up", stack });

/** The verdict in a word: "retry", "defer", or the reason why not. */
function verdictOn(policy: Partial<Policy>, outcome: FailureOutcome, parts: TestJobFields = {}) {
  const { kind, reason, match } = classify(testJob({ ...parts, policy }), outcome);
  return [reason ?? kind, matchName(match)];
}

describe("classify, in order, first match wins:", () => {
  // biome-ignore format: a table, one row a line
  const ROWS: Row[] = [
    // What the task itself reported.
    ["a logical failure is rejected, whatever the rules say", { rules: [retryAll] }, failed({ class: "logical" }), "rejected", "rejected by the task"],
    ["a logical failure is rejected, whatever the lists say", { retryOnExitCodes: [7] }, failed({ class: "logical", exitCode: 7 }), "rejected", "rejected by the task"],
    ["invalid input is invalid, whatever the rules say", { rules: [retryAll] }, failed({ class: "invalid" }), "invalid", "invalid input"],
    ["a timeout may carry a logical verdict", { onTimeout: "retry" }, timedOut({ class: "logical" }), "rejected", "rejected by the task"],
    ["a logical failure that a rule of the preset retries is retried", { preset: "opal", fallback: OOM_RETRIES, onUnknown: "fail" }, oomReported(), "retry", "preset opal"],
    ["only where that rule names the kind", { fallback: [testRule({ message: ["worker_oom"] }, "retry")] }, oomReported(), "rejected", "rejected by the task"],
    ["a rule of one's own wins over it", { fallback: OOM_RETRIES, rules: [failAll] }, failed({ kind: "result", class: "logical", message: "it: worker_oom" }), "rejected", "rules[0]"],
    ["so does a denied part", { fallback: OOM_RETRIES, noRetryOn: ["worker_oom"] }, oomReported(), "rejected", "noRetryOn"],
    ["a whole word within others", { fallback: [testRule({ kind: ["result"], words: ["worker_oom"] }, "retry")] }, failed({ kind: "result", class: "logical", message: "job: worker_oom." }), "retry", "preset default"],
    ["a part of a word is not that word", { fallback: [testRule({ kind: ["result"], words: ["worker_oom"] }, "retry")] }, failed({ kind: "result", class: "logical", message: "worker_oomph" }), "rejected", "rejected by the task"],
    ["an error that a handler throws is no report of a command", { fallback: OOM_RETRIES }, failed({ class: "logical", message: "worker_oom" }), "rejected", "rejected by the task"],
    ["nor is another reason", { fallback: OOM_RETRIES }, failed({ kind: "result", class: "logical", message: "model_missing" }), "rejected", "rejected by the task"],
    // Rules.
    ["a rule to retry wins over stopWhen", { rules: [retryAll], stopWhen: "true" }, failed(), "retry", "rules[0]"],
    ["a rule to fail wins over retryWhen", { rules: [failAll], retryWhen: "true" }, failed(), "rejected", "rules[0]"],
    ["a rule to defer wins over the deny list", { rules: [deferAll], noRetryOn: ["it"] }, failed(), "defer", "rules[0]"],
    ["the first rule that matches wins", { rules: [testRule({ kind: ["oom"] }, "fail"), retryAll, failAll] }, failed(), "retry", "rules[1]"],
    ["a rule sees timeouts", { rules: [testRule({ kind: ["timeout"] }, "fail")] }, timedOut(), "rejected", "rules[0]"],
    ["a rule sees queue timeouts", { rules: [testRule({ kind: ["queue_timeout"] }, "fail")] }, QUEUE_TIMEOUT, "rejected", "rules[0]"],
    ["a rule sees polled results", { rules: [testRule({ kind: ["result"] }, "defer")], retryWhen: "true" }, completed(), "defer", "rules[0]"],
    ["rules that do not match are passed over", { rules: [testRule({ kind: ["oom"] }, "fail")] }, failed(), "retry", "onUnknown"],
    // Conditions.
    ["stopWhen wins over retryWhen", { stopWhen: "true", retryWhen: "true" }, failed(), "rejected", "stopWhen"],
    ["stopWhen ends timeouts too", { stopWhen: "true" }, timedOut(), "rejected", "stopWhen"],
    ["stopWhen ends polling", { stopWhen: "{{ attempt == 1 }}", retryWhen: "true" }, completed(), "rejected", "stopWhen"],
    ["stopWhen sees the failure", { stopWhen: "{{ status_code == 503 }}" }, answered(503), "rejected", "stopWhen"],
    ["a stopWhen that is not true says nothing more", { stopWhen: "{{ status_code == 404 }}" }, answered(503), "retry", "onUnknown"],
    ["a retryWhen that is not true ends it", { retryWhen: "{{ status_code >= 500 }}" }, answered(404), "rejected", "retryWhen"],
    ["a retryWhen that is not true ends timeouts", { retryWhen: "{{ status_code >= 500 }}" }, timedOut(), "rejected", "retryWhen"],
    ["a retryWhen that is not true ends queue timeouts", { retryWhen: "{{ status_code >= 500 }}" }, QUEUE_TIMEOUT, "rejected", "retryWhen"],
    ["a retryWhen that is true does not overrule onTimeout", { retryWhen: "true", onTimeout: "fail" }, timedOut(), "timeout", "onTimeout"],
    ["a retryWhen that is true does not overrule the deny codes", { retryWhen: "true", noRetryOnExitCodes: [7] }, exited(7), "rejected", "noRetryOnExitCodes"],
    ["a retryWhen that is true does not overrule the allow codes", { retryWhen: "true", retryOnExitCodes: [8] }, exited(7), "rejected", "retryOnExitCodes"],
    ["a retryWhen that is true does not overrule the deny parts", { retryWhen: "true", noRetryOn: ["broke"] }, failed(), "rejected", "noRetryOn"],
    ["a retryWhen that is true retries what nothing else knows", { retryWhen: "true", onUnknown: "fail" }, failed(), "retry", "retryWhen"],
    ["a retryWhen that is true wins over the preset's own rules", { retryWhen: "{{ status_code == 404 }}" }, answered(404), "retry", "retryWhen"],
    // What is decided by kind alone.
    ["a timeout is retried", {}, timedOut(), "retry", "onTimeout"],
    ["a timeout is final where the policy says so", { onTimeout: "fail" }, timedOut(), "timeout", "onTimeout"],
    ["lists do not apply to timeouts", { noRetryOn: ["longer"], onUnknown: "fail" }, timedOut(), "retry", "onTimeout"],
    ["a queue timeout is retried", { onTimeout: "fail", onUnknown: "fail" }, QUEUE_TIMEOUT, "retry", "queue timeout"],
    ["a queue timeout is final where the preset's own rule says so", { preset: "fluster", fallback: NO_WAITS }, QUEUE_TIMEOUT, "rejected", "preset fluster"],
    ["a rule of one's own wins over the preset's on queue timeouts", { fallback: NO_WAITS, rules: [testRule({ kind: ["queue_timeout"] }, "retry")] }, QUEUE_TIMEOUT, "retry", "rules[0]"],
    ["a retryWhen that is true wins over the preset's on queue timeouts", { fallback: NO_WAITS, retryWhen: "true" }, QUEUE_TIMEOUT, "retry", "queue timeout"],
    ["a polled result is retried", { retryWhen: "true", onUnknown: "fail" }, completed(), "retry", "retryWhen"],
    // Exit codes.
    ["an exit code in the deny list is final", { noRetryOnExitCodes: [1, 2] }, exited(2), "rejected", "noRetryOnExitCodes"],
    ["deny wins over allow", { noRetryOnExitCodes: [137], retryOnExitCodes: [137] }, exited(137), "rejected", "noRetryOnExitCodes"],
    ["an exit code that is not denied is unknown", { noRetryOnExitCodes: [1, 2] }, exited(3), "retry", "onUnknown"],
    ["an exit code in the allow list is retried", { retryOnExitCodes: [137, 139], onUnknown: "fail" }, exited(139), "retry", "retryOnExitCodes"],
    ["an exit code that is not allowed is final", { retryOnExitCodes: [137, 139] }, exited(1), "rejected", "retryOnExitCodes"],
    ["no exit code is in no allow list", { retryOnExitCodes: [137, 139] }, failed(), "rejected", "retryOnExitCodes"],
    ["no exit code is in no deny list", { noRetryOnExitCodes: [0, 1] }, failed(), "retry", "onUnknown"],
    ["a command that died by a signal matches by 128 + n", { retryOnExitCodes: [137] }, failed({ kind: "signal", signal: "SIGKILL", exitCode: 137 }), "retry", "retryOnExitCodes"],
    ["an allowed exit code wins over a denied message", { retryOnExitCodes: [7], noRetryOn: ["exit"] }, exited(7), "retry", "retryOnExitCodes"],
    // Message parts.
    ["a denied part is final", { noRetryOn: ["permission denied"] }, failed("EACCES: Permission Denied, open"), "rejected", "noRetryOn"],
    ["deny parts win over allow parts", { noRetryOn: ["validation"], retryOn: ["timeout"] }, failed("Validation: timeout < 0"), "rejected", "noRetryOn"],
    ["an allowed part is retried", { retryOn: ["connection reset"], onUnknown: "fail" }, failed("read: Connection reset by peer"), "retry", "retryOn"],
    ["a part may be in the code", { retryOn: ["econnreset"], onUnknown: "fail" }, failed({ code: "ECONNRESET" }), "retry", "retryOn"],
    ["a denied part may be in the code", { noRetryOn: ["enoent"] }, failed({ code: "ENOENT" }), "rejected", "noRetryOn"],
    ["an allowed part wins over the preset's own rules", { retryOn: ["404"] }, answered(404), "retry", "retryOn"],
    ["a part that is nowhere says nothing", { retryOn: ["reset"], noRetryOn: ["denied"], onUnknown: "fail" }, failed(), "rejected", "onUnknown"],
    ["of a command, a part may be in the lines around its message", { retryOn: ["refused"], onUnknown: "fail" }, around("Connection refused\ngiving up"), "retry", "retryOn"],
    ["there too deny parts win", { noRetryOn: ["denied"], retryOn: ["refused"] }, around("denied\nrefused\ngiving up"), "rejected", "noRetryOn"],
    ["but what the message says comes first", { noRetryOn: ["denied"], retryOn: ["giving up"] }, around("denied\ngiving up"), "retry", "retryOn"],
    ["a retryWhen that is true does not overrule what is denied there", { retryWhen: "true", noRetryOn: ["denied"] }, around("denied\ngiving up"), "rejected", "noRetryOn"],
    ["the stack of an error is no text to look in", { noRetryOn: ["timeout.js"] }, failed({ stack: "at timeout.js:1" }), "retry", "onUnknown"],
    // The preset's own rules, then the unknown.
    ["the preset's own rule to fail wins over onUnknown", { onUnknown: "retry" }, answered(404), "rejected", "preset default"],
    ["the preset's own rule to retry wins over onUnknown", { preset: "opal", fallback: [testRule({ kind: ["oom"] }, "retry")], onUnknown: "fail" }, failed({ kind: "oom" }), "retry", "preset opal"],
    ["the unknown is retried", { onUnknown: "retry" }, failed(), "retry", "onUnknown"],
    ["the unknown is final where the policy says so", { onUnknown: "fail" }, failed(), "rejected", "onUnknown"],
  ];

  it.each(ROWS)("%s", (_, policy, outcome, verdict, matched) => {
    expect(verdictOn(policy, outcome)).toEqual([verdict, matched]);
  });

  it("gives the rule that matched, with its index, for its budget and backoff", () => {
    const rule = testRule({ kind: ["error"] }, "retry", { maxRetries: 2 });
    const verdict = classify(
      testJob({ policy: { rules: [testRule({ kind: ["oom"] }, "fail"), rule, failAll] } }),
      failed(),
    );
    expect(verdict.rule).toEqual({ index: 1, rule });
    expect(classify(testJob({ policy: { rules: [failAll] } }), failed()).rule).toBeNull();
    expect(classify(testJob(), answered(404)).rule).toBeNull();
  });

  it("gives the failure it judged", () => {
    const outcome = failed("it broke");
    expect(classify(testJob(), outcome).failure).toBe(outcome.failure);
    expect(classify(testJob(), QUEUE_TIMEOUT).failure.kind).toBe("queue_timeout");
  });
});

describe("a job that no worker ever started", () => {
  const never: TestJobFields = waitingJob();
  const ruled = { rules: [testRule({ kind: ["queue_timeout"] }, "fail")] };

  it("fails as unschedulable, whatever decided", () => {
    expect(verdictOn(ruled, QUEUE_TIMEOUT, never)).toEqual(["unschedulable", "rules[0]"]);
    expect(verdictOn({ stopWhen: "true" }, QUEUE_TIMEOUT, never)).toEqual(["unschedulable", "stopWhen"]);
  });

  it("need only be so since the last redrive", () => {
    expect(verdictOn(ruled, QUEUE_TIMEOUT, { chapter: 2, firstStartedAt: null })[0]).toBe("unschedulable");
  });

  it("is retried like any other", () => {
    expect(verdictOn({}, QUEUE_TIMEOUT, never)).toEqual(["retry", "queue timeout"]);
  });
});

describe("conditions", () => {
  const BROKEN = "{{ attempt / 0 > 1 }}";

  it.each<[string, Partial<Policy>, string]>([
    ["an error in stopWhen means: do not retry", { stopWhen: BROKEN }, "stopWhen"],
    ["an error in stopWhen is not mended by retryWhen", { stopWhen: BROKEN, retryWhen: "true" }, "stopWhen"],
    ["an error in retryWhen means: do not retry", { retryWhen: BROKEN }, "retryWhen"],
  ])("%s", (_, policy, matched) => {
    const verdict = classify(testJob({ policy }), failed());
    expect(verdict).toMatchObject({ kind: "fail", reason: "rejected", match: { by: "condition", condition: matched } });
    expect(verdict.conditionError).toEqual(expect.any(String));
  });

  it("leave no error behind when there was none", () => {
    for (const policy of [{ stopWhen: "true" }, { retryWhen: "false" }, { retryWhen: "true" }]) {
      expect(classify(testJob({ policy }), failed()).conditionError).toBeNull();
    }
  });

  it.each([
    ["status_code == 503"],
    ["error == '503 Service Unavailable'"],
    ["not success"],
    ["attempt == 4"],
    ["job_id == 'job-1' and kind == 'fetch'"],
    ["execution_id == 'job-1'"],
    ["node_id == 'fetch'"],
    ["exit_code == 7"],
    ["signal == 'SIGTERM'"],
    ["failure.kind == 'http' and failure.code == 'E1'"],
    ["result.status_code == 503 and result.exit_code == 7 and result.signal == 'SIGTERM'"],
    ["'503' in result.error and result.success == False"],
    ["data == None"],
  ])("see of a failure: %s", (condition) => {
    const counts = { attempt: 9, failures: 2, losses: 1 };
    const job = testJob({ id: "job-1", kind: "fetch", ...counts, policy: { retryWhen: `{{ ${condition} }}` } });
    const parts = { status: 503, message: "503 Service Unavailable", exitCode: 7, signal: "SIGTERM", code: "E1" };
    expect(classify(job, failed({ kind: "http", ...parts }))).toMatchObject({
      kind: "retry",
      match: { condition: "retryWhen" },
    });
  });

  it.each([
    ["result.state == 'pending' and result.n == 3"],
    ["data.state == 'pending'"],
    ["status_code == None"],
    ["error == None and success"],
    ["exit_code == None and signal == None and failure == None"],
    ["attempt == 1"],
  ])("see of a result: %s", (condition) => {
    const job = testJob({ policy: { retryWhen: `{{ ${condition} }}` } });
    expect(polled(job, completed({ state: "pending", n: 3 })).value).toBe(true);
  });

  it.each<[string, TestJobFields, number]>([
    ["the first run", {}, 1],
    ["a run after two failures and a loss", { attempt: 4, failures: 2, losses: 1 }, 4],
    ["a run after it was handed back and had waited for children", { attempt: 7, failures: 1 }, 2],
    ["the first run after a redrive", { chapter: 2, attempt: 6 }, 1],
    ["a wait of a job that nobody started", waitingJob(), 1],
  ])("and rules count attempts since the last redrive: %s", (_, parts, attempt) => {
    for (const number of [attempt - 1, attempt, attempt + 1]) {
      const verdict = number === attempt ? "rejected" : "retry";
      const condition = `{{ attempt == ${number} }}`;
      const rules = [testRule({ attempt: [number] }, "fail")];
      const outcome = parts.state === "queued" ? QUEUE_TIMEOUT : failed();
      const reason = parts.state === "queued" && number === attempt ? "unschedulable" : verdict;
      expect(verdictOn({ stopWhen: condition }, outcome, parts)[0]).toBe(reason);
      expect(verdictOn({ rules }, outcome, parts)[0]).toBe(reason);
      const polling = testJob({ ...parts, policy: { retryWhen: condition } });
      expect(polled(polling, completed()).value).toBe(number === attempt);
    }
  });

  it("retry a network error by a condition on the status, which is missing", () => {
    const policy = { retryWhen: "{{ status_code >= 500 or error != None }}" };
    expect(verdictOn(policy, failed("connect ECONNREFUSED"))).toEqual(["retry", "retryWhen"]);
    expect(verdictOn({ retryWhen: "{{ status_code >= 500 }}" }, failed())).toEqual(["rejected", "retryWhen"]);
  });
});

describe("polled", () => {
  const polling = (retryWhen: string | null) => testJob({ policy: { retryWhen } });

  it("is false without retryWhen", () => {
    expect(polled(polling(null), completed({ status_code: 202 })).value).toBe(false);
  });

  it("takes the status the executor gives before one in the result", () => {
    const job = polling("{{ status_code == 202 }}");
    expect(polled(job, completed({}, { statusCode: 202 })).value).toBe(true);
    expect(polled(job, completed({ status_code: 202 })).value).toBe(true);
    expect(polled(job, completed({ status_code: 202 }, { statusCode: null })).value).toBe(true);
    expect(polled(job, completed({ status_code: 202 }, { statusCode: 200 })).value).toBe(false);
  });

  it.each([
    ["a number in text", { status_code: "202" }],
    ["nothing", {}],
    ["an inherited status", Object.create({ status_code: 202 })],
    ["null", null],
    ["text", "202"],
  ])("finds no status in %s", (_, result) => {
    expect(polled(polling("{{ status_code == None }}"), completed(result)).value).toBe(true);
  });

  it("takes the data the executor gives before the result itself", () => {
    const job = polling("{{ data.done == false }}");
    expect(polled(job, completed({ done: true }, { data: { done: false } })).value).toBe(true);
    expect(polled(job, completed({ done: false })).value).toBe(true);
    expect(polled(job, completed({ done: false }, { data: null })).value).toBe(false);
  });

  it("is false when the condition errs: the work is done", () => {
    expect(polled(polling("{{ attempt / 0 > 1 }}"), completed()).value).toBe(false);
  });
});

describe("failureOf", () => {
  it("is the reported failure of a failed or timed out attempt", () => {
    const broke = failed();
    const slow = timedOut();
    expect(failureOf(broke)).toBe(broke.failure);
    expect(failureOf(slow)).toBe(slow.failure);
  });

  it("is made up for those that have none", () => {
    expect(failureOf(QUEUE_TIMEOUT)).toMatchObject({ kind: "queue_timeout", class: "transient" });
    expect(failureOf(completed())).toMatchObject({ kind: "result", class: "transient" });
  });
});
