import { describe, expect, it } from "vitest";
import { jobName, madeName, type NameParts, oneLine } from "./job-name.ts";

const exec = (payload: unknown, rest: Partial<NameParts> = {}) => jobName({ kind: "exec", payload, ...rest });

describe("a job's name", () => {
  it.each<[string, NameParts, string]>([
    [
      "its own, before everything",
      { name: "nightly", kind: "exec", annotations: { "attune/action": "a.b" } },
      "nightly",
    ],
    [
      "its action, before a manifest's name",
      { kind: "exec", annotations: { "x/name": "m", "attune/action": "a.b" } },
      "a.b",
    ],
    [
      "its manifest's name",
      { kind: "exec", annotations: { "agent-task/name": "writer" }, payload: { argv: ["x"] } },
      "writer",
    ],
    ["the name of its step", { kind: "http", annotations: { "noetl/step": "fetch" } }, "fetch"],
    ["its kind", { kind: "resize", payload: { url: "http://a/b" } }, "resize"],
    ["its kind, where the input is not one", { kind: "exec", payload: "nonsense" }, "exec"],
    ["its kind, where an annotation is blank", { kind: "mail", annotations: { "x/name": " \n" } }, "mail"],
  ])("is %s", (_, job, name) => {
    expect(jobName(job)).toBe(name);
  });

  it.each<[readonly string[], string]>([
    [["/usr/bin/sh", "/srv/x/opal-engine.sh"], "sh opal-engine.sh"],
    [["python3", "-u", "inputs/api.py", "--token", "s3cret"], "python3 api.py"],
    [["python3", "-m", "http.server"], "python3 http.server"],
    [["python3", "-c", "print('s3cret')"], "python3"],
    [["git", "push", "origin"], "git push"],
    [["./backup.sh"], "backup.sh"],
    [["curl", "-H", "Authorization: Bearer s3cret", "https://a.test"], "curl"],
    [["curl", "https://me:s3cret@a.test/x?key=s3cret"], "curl a.test/x"],
    [["mysql", "-ps3cret", "db"], "mysql"],
    [["env", "TOKEN=s3cret", "make", "PASSWORD=s3cret"], "make PASSWORD"],
    [["sh", "-ec", "set -e\n# first\nTOKEN=s3cret ./build.sh all && ./other"], "build.sh all"],
    [["bash", "-c", ""], "bash"],
    [["sh", "-c", "if [ -f x ]; then ./go.sh 'a b'; fi"], "go.sh a b"],
    [["sh", "-c", "while true"], "sh"],
    [["rsync", "me:s3cret@host"], "rsync"],
  ])("of the command %j is %s", (argv, name) => {
    expect(exec({ argv })).toBe(name);
  });

  it("of a script is its first command, on one line", () => {
    expect(exec({ command: "#!/bin/sh\nset -eu\ncd /srv; ./deploy.sh prod\nexit 0", shell: true })).toBe(
      "deploy.sh prod",
    );
    expect(exec({ argv: ["echo", `${"x".repeat(200)}`] })).toMatch(/^echo x+…$/);
    expect(exec({ argv: ["echo", `${"x".repeat(200)}`] })).toHaveLength(60);
  });

  it.each([
    [{ url: "https://me:s3cret@api.test/v1/users?token=s3cret#s3cret", method: "post" }, "POST api.test/v1/users"],
    [{ url: "http://api.test:8080/", headers: { Authorization: "s3cret" } }, "GET api.test:8080"],
    [{ url: "nonsense" }, "http"],
  ])("of the request %j is %s", (payload, name) => {
    expect(madeName({ kind: "http", payload })).toBe(name);
  });

  it("is one line, whatever is in it", () => {
    expect(oneLine("a\n\tb \u001b[31m\u202ec", 20)).toBe("a b [31m c");
    expect(oneLine("ab😀cd", 4)).toBe("ab…");
    expect(oneLine(" \n", 4)).toBe("");
  });
});
