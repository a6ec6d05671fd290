import { describe, expect, it } from "vitest";
import { AUTHENTICATION_FAILED } from "./authentication-failed.ts";
import { classify } from "./classify.ts";
import { lineList } from "./line-lists.ts";
import { presets } from "./presets.ts";
import { failed, testJob, testRule } from "./testing-job.ts";

describe("lists of phrases", () => {
  it("are words of letters and digits in lower case, as the text of a line is compared, and each is there once", () => {
    const phrases = Object.values(AUTHENTICATION_FAILED).flat();
    expect(phrases.filter((phrase) => !/^[a-z\d]+( [a-z\d]+)*$/.test(phrase))).toEqual([]);
    expect(phrases.filter((phrase, at) => phrases.indexOf(phrase) !== at)).toEqual([]);
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
      ...{ kind: "retry", matched: "onUnknown" },
      found: { part: 'this version does not know lines "authentication-failed-99"', line: null },
    });
  });
});
