import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { because, type DecidedEvent } from "../explain/decision-text.ts";
import { settleJob } from "../job/lifecycle.ts";
import { failed, T0, testJob, testRule } from "../job/testing-job.ts";
import { presets } from "../policy/presets.ts";
import { classify } from "./classify.ts";
import { AUTHENTICATION_FAILED, lineList } from "./phrase-lists.ts";

describe("lists of phrases", () => {
  it("are words of letters and digits in lower case, as lines are compared, each once", () => {
    const phrases = Object.values(AUTHENTICATION_FAILED).flat();
    expect(phrases.filter((phrase) => !/^[a-z\d]+( [a-z\d]+)*$/.test(phrase))).toEqual([]);
    expect(phrases.filter((phrase, at) => phrases.indexOf(phrase) !== at)).toEqual([]);
  });

  it("never change under their names once released: a changed list gets a new name beside the old one", () => {
    // Of a version that is not released yet, this is to be adapted.
    const digest = createHash("sha256").update(JSON.stringify(AUTHENTICATION_FAILED)).digest("hex");
    expect(digest.slice(0, 16)).toBe("fd1779f8d036e363");
  });

  it("are known under the names that presets store", () => {
    const names = Object.values(presets).flatMap(({ fallback }) =>
      fallback.flatMap(({ if: { lines } }) => lines ?? []),
    );
    expect(names).toEqual(["authentication-failed-1"]);
    expect(names.map(lineList)).not.toContain(null);
  });

  it("match nothing under a name that this version does not know, and the decision shows it", () => {
    const fallback = [testRule({ lines: "authentication-failed-99" }, "fail")];
    const job = testJob({ policy: { ...presets.agent, maxAttempts: 3, fallback } });
    expect(classify(job, failed("HTTP 401"))).toMatchObject({
      ...{ kind: "retry", match: { by: "onUnknown", unknownLists: ["authentication-failed-99"] } },
    });
    const decided = settleJob(testJob({ ...job, state: "running" }), failed("HTTP 401"), null, T0, 0.5);
    const { event, next: after } = decided;
    const text = because({
      event: { ...event, at: T0 } as DecidedEvent,
      after,
      deferred: false,
      cancel: null,
      isAtMostOnce: false,
    });
    expect(text).toContain('no rule matched (this version does not know lines "authentication-failed-99")');
  });
});
