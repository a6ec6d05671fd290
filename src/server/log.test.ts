import { describe, expect, it } from "vitest";
import { jobToken } from "./attempt-credentials.ts";
import { KeyRing } from "./key-ring.ts";
import type { LogLevel } from "./log.ts";
import { createLog, redacted } from "./log.ts";

function lines(options: { form?: "json" | "text"; level?: LogLevel } = {}) {
  const written: string[] = [];
  return { written, log: createLog({ ...options, write: (line) => void written.push(line), now: () => 0 }) };
}

const NASTY = 'a\n{"level":"info"}\r\u001b[31m\u009b\u2028\u202e\u0000';

describe("the log", () => {
  it("is one JSON line per record, its fields as they were", () => {
    const { log, written } = lines();
    log("warn", NASTY, { name: NASTY, n: 1, none: null });
    expect(written).toHaveLength(1);
    expect(written[0]).toMatch(/^[\u0020-\u007e]+\n$/);
    const record = { at: "1970-01-01T00:00:00.000Z", level: "warn", message: NASTY, name: NASTY, n: 1, none: null };
    expect(JSON.parse(written[0] as string)).toEqual(record);
  });

  it("is one line of text per record for people, with nothing that steers a terminal", () => {
    const { log, written } = lines({ form: "text" });
    log("error", "it broke", { name: NASTY, route: "/v1/x", n: 1 });
    expect(written[0]).toMatch(
      /^1970-01-01T00:00:00.000Z error it broke name="a\\n[\u0020-\u007e]* route=\/v1\/x n=1\n$/,
    );
  });

  it("leaves out what is below its level", () => {
    const { log, written } = lines({ level: "warn" });
    for (const level of ["debug", "info", "warn", "error"] as const) log(level, level);
    expect(written.map((line) => JSON.parse(line).message)).toEqual(["warn", "error"]);
  });

  it("has errors with their stack and cause, and handles fields that cannot be serialized", () => {
    const { log, written } = lines();
    log("error", "x", { error: new Error("outer", { cause: new Error("inner") }) });
    expect(JSON.parse(written[0] as string).error).toMatch(/Error: outer\n.*caused by Error: inner\n/s);
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    log("error", "y", { circle, big: 1n });
    expect(JSON.parse(written[1] as string)).toMatchObject({ message: "y", fields: "cannot be shown" });
  });

  it("redacts secrets of tokens everywhere", () => {
    const token = `pdr_abcd1234_${"S3-_".repeat(10)}abc`;
    const { log, written } = lines();
    log("info", `said ${token}`, { url: `/x?token=${token}`, nested: { list: [token] }, error: new Error(token) });
    expect(written[0]).not.toContain("S3-");
    expect(redacted(`${token}.`)).toBe("pdr_abcd1234_[redacted].");
    const secret = { text: `pds_${"s3-_".repeat(10)}`, signsFrom: null, until: null };
    const own = jobToken(new KeyRing([secret], () => 0), "job_01m7gekg9zevv9a6xvvwmt1v8g", 7);
    expect(redacted(`<${own}>`)).toBe("<pdj_01m7gekg9zevv9a6xvvwmt1v8g_[redacted]>");
    expect(redacted(`<${secret.text}>`)).toBe("<pds_[redacted]>");
  });

  it("does not fail whoever writes it", () => {
    const broken = createLog({
      write: () => {
        throw new Error("full");
      },
      now: () => 0,
    });
    expect(() => broken("error", "x")).not.toThrow();
  });
});
