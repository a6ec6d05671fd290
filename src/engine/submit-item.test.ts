import { describe, expect, it } from "vitest";
import { exec, http, postgres } from "../core/input/builtin.ts";
import { toPayload } from "../core/input/submit-check.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { task } from "../core/task/task.ts";
import { checkBuiltin, checkBuiltinKind } from "./check-builtin.ts";
import { policyOf, toItem, toSubmitItem } from "./submit-item.ts";

const BASE = { kind: "k", payload: "1", namespace: "team" };

describe("a submit request", () => {
  it("without options is a job by the default policy", () => {
    expect(toSubmitItem({ ...BASE, options: {} })).toEqual({ ...BASE, policy: resolvePolicy(), open: { given: {} } });
  });

  it("is converted to the engine's units", () => {
    const options = {
      ...{
        key: "a",
        queue: "q",
        priority: 0,
        runAt: new Date(5_000),
        tags: ["t"],
        timeout: "1m" as const,
        expireIn: 7,
      },
      ...{ deadline: 9_000, retry: 3, labels: { gpu: "yes" } },
    };
    expect(toSubmitItem({ ...BASE, options })).toEqual({
      ...BASE,
      ...{ key: "a", queue: "q", priority: 0, runAt: 5_000, tags: ["t"], timeoutMs: 60_000, expireInMs: 7 },
      ...{ deadlineAt: 9_000, policy: resolvePolicy(3), labels: { gpu: "yes" } },
      open: { given: { retry: 3, timeout: "1m", expireIn: 7, queue: "q", priority: 0 } },
      sources: { from: { maxAttempts: "submit", timeout: "submit", expireIn: "submit" } },
    });
    expect(toSubmitItem({ ...BASE, options: { delay: "2s" } })).toMatchObject({ delayMs: 2_000 });
  });

  it("takes missing options from the task", () => {
    const taskOptions = { queue: "slow", priority: 9, timeout: "2m", expireIn: "1h", retry: 7 } as const;
    const policy = resolvePolicy(7);
    const item = toSubmitItem({ ...BASE, options: { priority: 1, queue: undefined } as never, taskOptions, policy });
    expect(item).toMatchObject({ queue: "slow", priority: 1, timeoutMs: 120_000, expireInMs: 3_600_000, policy });
    expect(toSubmitItem({ ...BASE, options: { retry: 2 }, taskOptions, policy }).policy).toEqual(resolvePolicy(2));
  });

  it("resolves a policy once: that of a task, and a frozen one that is passed repeatedly", () => {
    const fields = Object.freeze({ maxAttempts: 4 });
    const [a, b] = [1, 2].map(() => toSubmitItem({ ...BASE, options: { retry: fields } }).policy);
    expect(a).toBe(b);
    const t = task("t", { retry: 3 }, () => 1);
    expect(policyOf(t)).toBe(policyOf(t));
    // A mutable one is read each time.
    const open = { maxAttempts: 4 };
    expect(toSubmitItem({ ...BASE, options: { retry: open } }).policy.maxAttempts).toBe(4);
    open.maxAttempts = 5;
    expect(toSubmitItem({ ...BASE, options: { retry: open } }).policy.maxAttempts).toBe(5);
  });

  it("names the field of a mistake", () => {
    const wrong = (options: object) => () => toSubmitItem({ ...BASE, options: options as never });
    expect(wrong({ dealy: 1 })).toThrow(/Did you mean "delay"/);
    expect(wrong({ delay: 1, runAt: 2 })).toThrow(/cannot be used together with runAt/);
    expect(wrong({ timeout: 0 })).toThrow(/submit.timeout.*at least 1 ms/);
    expect(wrong({ deadline: "tomorrow" })).toThrow(/submit.deadline/);
  });
});

describe("a payload", () => {
  it("is JSON text, and nothing without an input", () => {
    expect(toPayload({ a: [1, null] })).toBe('{"a":[1,null]}');
    expect(toPayload(null)).toBe("null");
    expect(toPayload(undefined)).toBe("");
  });

  it.each([[10n], [() => 1], [Symbol("s")]])("cannot be made of %o", (input) => {
    expect(() => toPayload(input)).toThrow(expect.objectContaining({ code: "invalid_payload", path: "payload" }));
  });
});

describe("a built-in kind", () => {
  it("has its input checked by name, too", () => {
    expect(() => checkBuiltinKind("exec", { argv: "ls" })).toThrow(/exec.argv/);
    expect(() => checkBuiltinKind("http", { url: "ftp://a" })).toThrow(/http.url/);
    expect(() => checkBuiltinKind("exec", { argv: ["ls"] })).not.toThrow();
    expect(() => checkBuiltinKind("other", { argv: "ls" })).not.toThrow();
    expect(() => checkBuiltin("exec", undefined)).toThrow(/exec/);
    expect(() => checkBuiltin(exec, {})).toThrow(/exec: has no command/);
    expect(() => checkBuiltin(http, {})).toThrow(/http.url/);
    expect(() => checkBuiltinKind("postgres", { connection: "a" })).toThrow(/postgres.statements/);
  });

  it("of SQL requires the label of its connection, whatever labels the job has", () => {
    const input = { connection: "My-Shop", statements: [{ text: "select 1" }] };
    const label = { "connection/my_shop": "yes" };
    expect(checkBuiltin(postgres, input)).toEqual(label);
    expect(checkBuiltinKind("exec", { argv: ["ls"] })).toBeNull();
    expect(toItem({ task: postgres, input }, "n").labels).toEqual(label);
    expect(toItem({ task: "postgres", input, options: { labels: { zone: "b" } } }, "n")).toMatchObject({
      labels: { zone: "b", ...label },
    });
  });

  it("is not meant by a user's own task with the same name", () => {
    expect(() =>
      checkBuiltin(
        task("exec", (input: number) => input),
        7,
      ),
    ).not.toThrow();
  });
});
