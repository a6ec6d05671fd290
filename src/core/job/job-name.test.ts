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
    [["python3", "-c", "s3cret"], "python3"],
    [["node", "-p", "s3cret"], "node"],
    [["node", "--import", "s3cret", "x.mjs"], "node"],
    [["git", "push", "origin"], "git push"],
    [["./backup.sh"], "backup.sh"],
    [["C:\\tools\\node.exe", "x.mjs"], "node.exe x.mjs"],
    [["curl", "-H", "Authorization: Bearer s3cret", "https://a.test"], "curl"],
    [["curl", "https://me:s3cret@a.test/s3cret?key=s3cret"], "curl"],
    [["mysql", "-ps3cret", "db"], "mysql"],
    [["env", "TOKEN=s3cret", "make", "PASSWORD=s3cret"], "make"],
    [["env", "TOKEN=s3cret"], "env"],
    [["env", "A-B=x/s3cret"], "env"],
    [["env"], "env"],
    [["fish", "-c", "s3cret"], "fish"],
    [["nice", "-n", "10", "true"], "nice"],
    [["nohup", "./x.sh", "all"], "x.sh all"],
    [["rsync", "me:s3cret@host"], "rsync"],
    [["echo", '{"a": "s3cret"}'], "echo"],
    [["echo", "x".repeat(41)], "echo"],
    [["s3cret s3cret"], "exec"],
    [["sh", "-ec", "set -e\n# first\nTOKEN=s3cret ./build.sh all && ./other"], "build.sh all"],
    [["bash", "-e", "-c", "./go.sh"], "go.sh"],
    [["bash", "-o", "pipefail", "-c", "s3cret"], "bash"],
    [["bash", "-c", ""], "bash script"],
    [["sh", "-c", "while true"], "sh script"],
  ])("of the command %j is %s", (argv, name) => {
    expect(exec({ argv })).toBe(name);
  });

  it.each<[string, string]>([
    ["#!/bin/sh\nset -eu\ncd /srv; ./deploy.sh prod\nexit 0", "deploy.sh prod"],
    ["if [ -f x ]; then ./go.sh 'a s3cret'; fi", "go.sh"],
    ["for x in s3cret b; do ./go.sh $x; done", "go.sh"],
    ["A=1 \\\n  ./go.sh all", "go.sh all"],
    ['PASSWORD="s3cret x" true db', "true db"],
    ["export T='aa;s3cret'; true", "true"],
    ["T=aa\\ s3cret true", "true"],
    ["T=aa\\;s3cret true", "true"],
    ["A+=x/s3cret true", "sh script"],
    ["env | grep X", "env"],
    ["echo s3cret | docker login", "echo"],
    ['echo "{\\"a\\": 1}"', "echo"],
    ["nice -n 10 true", "nice"],
    ["sh -c 's3cret'", "sh script"],
    ["node -e s3cret", "node"],
    ["./go.sh 2>s3cret", "go.sh"],
    ["./go.sh x$(s3cret)", "go.sh"],
    ["cat <<E\ns3cret\nE", "cat"],
    // A space does not end the word in these, and they are not read.
    ['T="$(echo "a s3cret b")" true', "sh script"],
    ["T=$(echo a s3cret b) true", "sh script"],
    ["T=`echo a; s3cret b` true", "sh script"],
    ["T=(a s3cret b) true", "sh script"],
    ["T=$'it\\'s s3cret x' true", "sh script"],
    [`T=\${X:-a s3cret b} true`, "sh script"],
    [`T="\${X:-a" s3cret "b}" true`, "sh script"],
    ["T='a s3cret", "sh script"],
    ['T="a s3cret\\"', "sh script"],
    ["export T <<E\ns3cret\nE", "sh script"],
    ["case x in\ns3cret | b) true;; esac", "sh script"],
    ["$PROGRAM s3cret", "sh script"],
    ["'my s3cret' x", "sh script"],
    ["", "sh script"],
  ])("of the script %j is %s", (command, name) => {
    expect(exec({ command, shell: true })).toBe(name);
    expect(exec({ argv: ["sh", "-c", command] })).toBe(name);
  });

  it.each([
    [{ url: "https://me:s3cret@api.test/hook/s3cret?token=s3cret#s3cret", method: "post" }, "POST api.test"],
    [{ url: "https://me:s3cret@x@api.test/" }, "GET api.test"],
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
