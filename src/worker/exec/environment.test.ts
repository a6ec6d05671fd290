import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import { environmentOf } from "./environment.ts";

const from = {
  ...{ PATH: "/bin", HOME: "/home/w", LANG: "C.UTF-8", TZ: "", DATABASE_URL: "postgres://secret", AWS_SECRET: "s" },
  ...{ NODE_OPTIONS: "--require evil", LD_PRELOAD: "/evil.so", PERDURE_TOKEN: "t", PERDURE_JOB_ID: "outer", FOO: "1" },
};
const own = { PERDURE_JOB_ID: "job_1" };
const of = (job: Record<string, string>, allow: string[] = []) => ({ ...environmentOf({ from, job, allow, own }) });

describe("the environment of a command", () => {
  it("has base variables, those of the job, and PERDURE_*", () => {
    expect(of({ FOO: "mine", LANG: "de" })).toEqual({
      ...{ PATH: "/bin", HOME: "/home/w", LANG: "de", FOO: "mine", PERDURE_JOB_ID: "job_1" },
    });
  });

  it("has a path also where the worker has none", () => {
    const env = environmentOf({ from: {}, job: {}, allow: [], own: {} });
    expect({ ...env }).toEqual({ PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" });
  });

  const RISKY = [
    ...["PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"],
    ...["NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "PERL5OPT", "RUBYOPT", "RUBYLIB"],
    ...["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "GIT_SSH_COMMAND", "SHELLOPTS", "PS4"],
  ];

  it.each(RISKY)("%s is refused unless the worker allows it", (name) => {
    expect(() => of({ [name]: "x" })).toThrow(ConfigError);
    expect(() => of({ [name]: "x" }, ["OTHER"])).toThrow(`env.${name}`);
    expect(of({ [name]: "x" }, [name])[name]).toBe("x");
    expect(of({ [name]: "x" }, ["*"])[name]).toBe("x");
  });

  it.each(["PATHS", "MY_PATH", "ENVIRONMENT", "GITHUB", "FOO", "LDAP", "_", "NODE_ENV", "__proto__"])(
    "%s is harmless",
    (name) => {
      const job = Object.create(null) as Record<string, string>;
      job[name] = "x";
      expect(Object.entries(environmentOf({ from, job, allow: [], own }))).toContainEqual([name, "x"]);
    },
  );

  it("has the filled variables of the job, with the same rules for names", () => {
    const filled = { MY_JOB: "job_1", PORT: "8080" };
    expect(environmentOf({ from, job: { A: "1" }, filled, allow: [], own })).toMatchObject({ A: "1", ...filled });
    const risky = { from, job: {}, filled: { GIT_DIR: "job_1" }, own };
    expect(() => environmentOf({ ...risky, allow: [] })).toThrow("fill.GIT_DIR");
    expect(environmentOf({ ...risky, allow: ["GIT_DIR"] }).GIT_DIR).toBe("job_1");
  });

  it("does not let variables override PERDURE_*", () => {
    expect(of({ PERDURE_JOB_ID: "forged" }).PERDURE_JOB_ID).toBe("job_1");
    const job = { PERDURE_TOKEN: "forged", PERDURE_URL: "http://evil" };
    const access = { PERDURE_TOKEN: "pdj_1", PERDURE_URL: "http://here" };
    expect(environmentOf({ from, job, filled: job, allow: ["*"], own: access })).toMatchObject(access);
  });
});
