import { describe, expect, it } from "vitest";
import { CallBackoff, isAway, isDenied, isGone, isRefused, mayPass, mayRepeat } from "./repeat.ts";
import { parseReply, refusal, unreachable, type WireError, wordsOf } from "./wire-error.ts";

const URL = "http://server";
const ours = (code: string) => JSON.stringify({ code, message: "as the server says", path: null });
const replied = (status: number, text: string, retryAfter: string | null = null) =>
  refusal({ server: URL }, status, retryAfter, text);
/** once: repeated also where it must not be done twice. again: where it may. later: waited out by a worker. */
const verdict = (error: WireError) => ({
  code: error.code,
  once: mayRepeat(error, false),
  again: mayRepeat(error, true),
  later: mayPass(error),
});
const [YES, NO] = [true, false];

describe("a reply that is not a success", () => {
  it.each([
    [400, ours("invalid_request"), "invalid_request", NO, NO, NO],
    [401, ours("unauthorized"), "unauthorized", NO, NO, YES],
    [409, ours("wrong_state"), "wrong_state", NO, NO, NO],
    [429, ours("too_many_requests"), "too_many_requests", YES, YES, YES],
    [500, ours("internal"), "internal", NO, NO, YES],
    [500, ours("store_unknown"), "store_unknown", NO, YES, YES],
    [503, ours("overloaded"), "overloaded", YES, YES, YES],
    [503, ours("signing_key_missing"), "signing_key_missing", YES, YES, YES],
    [503, ours("closed"), "server_unreachable", YES, YES, YES],
    [507, ours("store_full"), "store_full", YES, YES, YES],
    // Codes of a newer server: the status says what to do.
    [503, ours("resting"), "resting", YES, YES, YES],
    [500, ours("broken"), "broken", NO, NO, YES],
    [422, ours("unheard_of"), "unheard_of", NO, NO, NO],
    // Of a proxy. Its 503 does not prove that nothing was done.
    [401, "who are you?", "unauthorized", NO, NO, YES],
    [403, "", "forbidden", NO, NO, YES],
    [413, "<html>", "body_too_large", NO, NO, NO],
    [418, "<html>", "invalid_request", NO, NO, NO],
    [429, "slow down", "too_many_requests", YES, YES, YES],
    [500, "oops", "server_unreachable", NO, YES, YES],
    [503, "<html>", "server_unreachable", NO, YES, YES],
    // Of another program.
    [404, "<html>", "not_found", NO, NO, YES],
    [302, "", "not_found", NO, NO, YES],
    // Of a gateway with codes of its own.
    [404, ours("NO_ROUTE"), "NO_ROUTE", NO, NO, YES],
    [403, ours("AccessDenied"), "forbidden", NO, NO, YES],
    [502, ours("NO_UPSTREAM"), "server_unreachable", NO, YES, YES],
  ])("of status %i and %s", (status, text, code, once, again, later) => {
    expect(verdict(replied(status, text))).toEqual({ code, once, again, later });
  });

  it("tells a session that is over from an address that is wrong, and a request that is refused from its sender", () => {
    expect([ours("not_found"), "<html>", ours("NO_ROUTE")].map((text) => isGone(replied(404, text)))).toEqual([
      YES,
      NO,
      NO,
    ]);
    expect([replied(409, ours("lease_lost")), replied(409, ours("wrong_state"))].map(isGone)).toEqual([true, false]);
    expect([400, 413, 403, 503].map((status) => isRefused(replied(status, ours("any"))))).toEqual([YES, YES, NO, NO]);
  });
});

describe("a call without a reply", () => {
  it("may have been done once it was sent, and says so to callers who do not repeat it", () => {
    const reset = Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET" } });
    const [sent, unsent] = [true, false].map((isSent) => unreachable({ server: URL, isDoubtful: true }, reset, isSent));
    expect(verdict(sent as WireError)).toMatchObject({ once: false, again: true, later: true });
    expect(verdict(unsent as WireError)).toMatchObject({ once: true, again: true, later: true });
    expect(sent?.message).toBe(
      "the server at http://server cannot be reached: ECONNRESET; whether the call was done is unknown",
    );
    expect(unsent?.message).toBe("the server at http://server cannot be reached: ECONNRESET");
    expect(wordsOf(Object.assign(new AggregateError([]), { code: "ECONNREFUSED" }))).toBe("ECONNREFUSED");
  });

  it("is a wrong address where the certificate is not trusted", () => {
    const untrusted = Object.assign(new Error("self-signed"), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    expect(unreachable({ server: URL }, untrusted).isWrongAddress).toBe(true);
  });
});

it("a reply is parsed by what it holds; one that is cut is not another program's", () => {
  expect(parseReply(URL, 200, "text/plain", '{"a":1}')).toEqual({ a: 1 });
  expect(parseReply(URL, 204, null, "")).toBeUndefined();
  expect(() => parseReply(URL, 200, "application/json", "")).toThrow(
    "an empty reply, which is not a reply of a Perdure server",
  );
  const thrown = (type: string) => {
    try {
      return parseReply(URL, 200, type, '{"a":');
    } catch (error) {
      return (error as WireError).code;
    }
  };
  expect([thrown("application/json; charset=utf-8"), thrown("text/html")]).toEqual(["internal", "not_found"]);
});

it("pauses grow to 3 s, add what the server asks for up to a minute, and are long for a token that is refused", () => {
  const backoff = new CallBackoff(() => 1);
  const lost = unreachable({ server: URL }, "reset");
  expect(Array.from({ length: 7 }, () => backoff.after(lost))).toEqual([100, 200, 400, 800, 1_600, 3_000, 3_000]);
  backoff.reset();
  expect(backoff.after(replied(503, ours("overloaded"), "2"))).toBe(2_100);
  expect(backoff.after(replied(503, ours("overloaded"), "86400"))).toBe(60_200);
  const denied = replied(401, ours("unauthorized"));
  expect([isDenied(denied), isAway(denied), backoff.after(denied)]).toEqual([true, false, 5_500]);
});
