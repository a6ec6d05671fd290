import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stderrSummary } from "./stderr-summary.ts";

const text = (...lines: string[]) => lines.join("\n");
const STACK = [
  "    at Socket.<anonymous> (/srv/app/client.js:10:9)",
  "    at process.processTicksAndRejections (node:internal/process/task_queues:82:21)",
];
const REFUSED = text(
  ...["node:events:502", "      throw er; // Unhandled 'error' event", "      ^", ""],
  "Error: connect ECONNREFUSED 127.0.0.1:5432",
  "    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611:16)",
  "Emitted 'error' event on Socket instance at:",
  "    at emitErrorNT (node:internal/streams/destroy:169:8) {",
  ...["  errno: -111,", "  code: 'ECONNREFUSED',", "  syscall: 'connect',", "  port: 5432", "}"],
  ...["", "Node.js v20.20.2", ""],
);

describe("the stderr summary", () => {
  it.each<[string, string, string]>([
    ["nothing", "", ""],
    ["blanks", " \n\n\t\n", ""],
    ["the last line", "one\ntwo  \n\n \n", "two"],
    ["lines of Windows", "one\r\ntwo\r\n", "two"],
    ["an exception of Node", REFUSED, "Error: connect ECONNREFUSED 127.0.0.1:5432"],
    ["lines of Windows, of Node", REFUSED.replaceAll("\n", "\r\n"), "Error: connect ECONNREFUSED 127.0.0.1:5432"],
    [
      "a Python message of several lines",
      text(
        ...["starting", "Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    raise e"],
        ...["my.errors.Bad: Validation failed:", "", "  field url: timeout", ""],
      ),
      "my.errors.Bad: Validation failed:",
    ],
    [
      "no traceback, but words with something indented below",
      "Traceback: see below\n  one\nusage: tool\n  --flag\n",
      "--flag",
    ],
    [
      "a traceback that is followed by words",
      text("Traceback (most recent call last):", "  x", "E: a", "gone"),
      "gone",
    ],
    ["a version alone", "Node.js v20.20.2\n", "Node.js v20.20.2"],
    ["a version after words", "giving up\n\nNode.js v22.1.0\n", "giving up"],
    [
      "a code that the message does not name",
      text(
        "Error: no answer",
        ...STACK.slice(0, 1),
        `${STACK[1]} {`,
        "  code: 'ECONNRESET'",
        "}",
        "",
        "Node.js v20.1.0",
      ),
      "Error: no answer (code: 'ECONNRESET')",
    ],
    [
      "a cause",
      text(
        ...["TypeError: fetch failed", `${STACK[0]} {`, "  [cause]: Error: connect ECONNREFUSED ::1:80"],
        ...["      at TCPConnectWrap.afterConnect (node:net:1611:16) {", "    code: 'ECONNREFUSED',", "  }", "}"],
      ),
      "TypeError: fetch failed; cause: Error: connect ECONNREFUSED ::1:80",
    ],
    ["a stack that was written", text("starting", "RangeError: too far", ...STACK), "RangeError: too far"],
    [
      "words before it",
      text("Error: an old one", "it failed: Error: a new one", ...STACK),
      "it failed: Error: a new one",
    ],
    ["an error of another name", text("Error: an old one", "MyFailure: bad", ...STACK), "MyFailure: bad"],
    [
      "a message of several lines",
      text("Error: Command failed: curl", "", "curl: (7)", ...STACK),
      "Error: Command failed: curl",
    ],
    ["an error without a stack", text("[Error: no stack] {", "  code: 'E1'", "}"), "Error: no stack (code: 'E1')"],
    [
      "Python",
      text("Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "    f()", "ValueError: bad"),
      "ValueError: bad",
    ],
    [
      "Java",
      text(
        'Exception in thread "main" x.E: no',
        "\tat A.main(A.java:3)",
        "Caused by: y.F: Connection refused",
        "\tat B.go(B.java:9)",
        "\t... 1 more",
      ),
      "Caused by: y.F: Connection refused",
    ],
    ["JSON", text("{", '  "error": "x"', "}"), "}"],
    ["a block of something", text("server {", "  port 1", "}"), "}"],
    ["words like a frame", text("", "    at the end of the day"), "at the end of the day"],
    ["a stack without its beginning", text(...STACK, "", "Node.js v20.20.2"), (STACK[1] as string).trim()],
  ])("of %s", (_name, tail, wanted) => {
    expect(stderrSummary(tail)).toBe(wanted);
  });

  it.each<[string, string]>([
    ['throw new Error("connect: Connection refused")', "Error: connect: Connection refused"],
    ['throw "just text"', "just text"],
    ['throw { a: 1, list: "x".repeat(70).split("") }', "{ a: 1, list: [ 'x', 'x'"],
    ['Promise.reject(new TypeError("late"))', "TypeError: late"],
    ['Promise.reject("a reason")', "UnhandledPromiseRejection: "],
    ['require("node:net").connect(1, "127.0.0.1")', "Error: connect ECONNREFUSED 127.0.0.1:1"],
    [
      'throw Object.assign(new Error("no"), { code: "E_MINE", data: { deep: { x: "}" } } })',
      "Error: no (code: 'E_MINE')",
    ],
    ['throw new Error("outer", { cause: new Error("inner") })', "Error: outer; cause: Error: inner"],
    ['const e = new Error("bare"); e.stack = undefined; throw e', "Error: bare"],
    ['require("node:assert").strictEqual(1, 2)', "AssertionError [ERR_ASSERTION]: Expected values"],
    ['require("./nope")', "Error: Cannot find module './nope'"],
    ["nope()", "ReferenceError: nope is not defined"],
    ['console.error(new Error("caught")); process.exit(1)', "Error: caught"],
    ["const x = {;", "SyntaxError: Unexpected token ';'"],
  ])("of this Node, when it runs %s", (script, wanted) => {
    const { stderr, status } = spawnSync(process.execPath, ["-e", script], { encoding: "utf8", cwd: "/" });
    expect(status).toBe(1);
    expect(stderrSummary(stderr.slice(-4_096)).slice(0, wanted.length)).toBe(wanted);
  });

  it("is one line of at most 2,048 characters, whatever the text is", () => {
    const piece = fc.constantFrom(
      ...REFUSED.split("\n"),
      "}",
      "{",
      "    ^",
      "x:1",
      "\0\ufffd\u001b[31m",
      "Error:",
      " ",
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: "binary", maxLength: 500 }),
          fc.array(piece).map((all) => all.join("\n")),
        ),
        (tail) => {
          const line = stderrSummary(tail);
          expect(line).toBe(line.trim());
          expect(line.includes("\n")).toBe(false);
          expect(line === "").toBe(tail.trim() === "");
        },
      ),
    );
    for (const unit of ["x", " ", "1:", "\n", "at ", "^", "Error", "}\n", "    at x:1\n", "[a"]) {
      const line = stderrSummary(unit.repeat(4_096 / unit.length));
      expect(line.length).toBeLessThanOrEqual(2_048);
    }
  });
});
