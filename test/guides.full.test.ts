/** Runs the shell sessions in the guides as written, each page from top to bottom in an empty directory. Marks of
 *  fences: `sh background`: started, and left running until the end of the page; the test continues when it prints its
 *  address · `sh console`: run in one shell, must succeed · `text output`: the output of the block above; `…` matches
 *  anything within a line. `perdure` is the built program; a port in a page is replaced by a free one. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { fencesIn, ROOT } from "./fences.ts";

const DIST = process.env.PERDURE_TEST_DIST ?? join(ROOT, "dist");
const PROGRAM = join(DIST, "cli/main.js");
const GUIDES = join(ROOT, "docs/guides");
const NAMED_URL = "http://127.0.0.1:4400";

/** One shell per page: variables of a block are set in the next one. */
class Shell {
  readonly #child: ChildProcess;
  readonly #exited: Promise<number>;
  #text = "";
  #heard: () => void = () => {};

  constructor(cwd: string, env: NodeJS.ProcessEnv) {
    this.#child = spawn("bash", ["--noprofile", "--norc"], { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
    this.#exited = new Promise((resolve) => this.#child.once("exit", (code) => resolve(code ?? -1)));
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#text += text;
      this.#heard();
    });
    // One pipe for both streams, as on a terminal: with two, the order of lines would be unknown to a busy reader.
    this.#child.stdin?.write("exec 2>&1\n");
  }

  async run(body: string): Promise<{ readonly code: number; readonly text: string }> {
    this.#text = "";
    // Sourced from a file: a command in the block must not read the rest of it as its input.
    const file = `block-${Math.random().toString(36).slice(2)}.sh`;
    this.#child.stdin?.write(`cat > ${file} <<'END-OF-BLOCK'\n${body}\nEND-OF-BLOCK\n`);
    this.#child.stdin?.write(`set -e; . ./${file} < /dev/null; set +e; echo; echo "ENDED 0"\n`);
    const done = new Promise<number>((resolve) => {
      this.#heard = () => this.#text.includes("\nENDED 0\n") && resolve(0);
    });
    const code = await Promise.race([done, this.#exited]);
    return { code, text: this.#text.replace(/\n?ENDED 0\n/, "") };
  }

  close(): void {
    this.#child.kill("SIGKILL");
  }
}

/** Starts a background block; resolves with the address that it prints. */
function inBackground(
  body: string,
  cwd: string,
  env: NodeJS.ProcessEnv,
): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn("bash", ["-c", `exec ${body.trim()}`], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((resolve, reject) => {
    let text = "";
    const hear = (chunk: Buffer) => {
      text += chunk.toString();
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
      if (url !== undefined && /Ctrl-C stops it|To start a worker|^worker ses_/.test(text)) resolve({ child, url });
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
    child.once("exit", (code) => reject(new Error(`${body.trim()} ended with ${code}: ${text}`)));
  });
}

/** `perdure up` serves before its workers are ready. A human reader is slower than that; the next block may not be. */
async function workersAreThere(cwd: string, env: NodeJS.ProcessEnv): Promise<void> {
  for (let said = ""; !said.includes(" alive "); ) {
    ({ stdout: said } = await promisify(execFile)("perdure", ["workers"], { cwd, env }));
  }
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}

/** `…` matches anything within a line. */
function patternOf(text: string): RegExp {
  const escaped = text.trim().replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("…", "[^\\n]*")}$`);
}

const pages = readdirSync(GUIDES)
  .filter((name) => name.endsWith(".md"))
  .map((page) => ({ page, blocks: fencesIn(`docs/guides/${page}`) }))
  .filter(({ blocks }) => blocks.some(({ info }) => info === "sh console"));

describe("the shell sessions of the guides", () => {
  it("are found", () => expect(pages.length).toBeGreaterThan(0));

  it.each(pages)("$page", { timeout: 120_000 }, async ({ page, blocks }) => {
    if (!existsSync(PROGRAM)) throw new Error("the guides run the built program: npm run build");
    const dir = mkdtempSync(join(tmpdir(), "perdure-guide-"));
    const bin = join(dir, ".bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "perdure"), `#!/bin/sh\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`);
    chmodSync(join(bin, "perdure"), 0o755);
    const env = { PATH: `${bin}:${process.env.PATH}`, HOME: dir, PERDURE_PORT: "0", PERDURE_LOG_LEVEL: "error" };
    const work = join(dir, "work");
    mkdirSync(join(work, "node_modules"), { recursive: true });
    // As if it were installed there.
    writeFileSync(join(work, "package.json"), '{ "type": "module" }');
    symlinkSync(dirname(DIST), join(work, "node_modules/perdure"), "dir");
    const shell = new Shell(work, env);
    const running: ChildProcess[] = [];
    let url = NAMED_URL;
    try {
      for (const [i, { info, body, line }] of blocks.entries()) {
        if (info === "sh background") {
          const started = await inBackground(body, work, env);
          running.push(started.child);
          url = started.url;
          if (/\bperdure up\b/.test(body) && !body.includes("--workers 0")) await workersAreThere(work, env);
        }
        if (info !== "sh console") continue;
        const { code, text } = await shell.run(body.replaceAll(NAMED_URL, url));
        const said = text.replaceAll(url, NAMED_URL).trim();
        expect(code, `${page}:${line}\n${said}`).toBe(0);
        const next = blocks[i + 1];
        if (next?.info === "text output") expect(said, `${page}:${next.line}`).toMatch(patternOf(next.body));
      }
    } finally {
      shell.close();
      for (const child of running) await ended(child);
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
