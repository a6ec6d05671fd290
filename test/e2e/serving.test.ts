/** How servers start and stop: in a terminal, with TLS, with invalid options, and beside each other. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { Perdure } from "../../src/embedded/perdure.ts";
import { perdure } from "../cli/kit.ts";
import { TEST_CERT, TEST_KEY } from "../server/tls.ts";
import { IS_FULL } from "../tier.ts";
import { connect, linesIn, newHome, Proc, SECRET, sh, TEST_MS, tokenIn, until } from "./kit.ts";

const QUIET = ["--port", "0", "--json"];

/** Runs the command line in this process, for commands that end by themselves. Signal listeners are removed after the
 *  test. */
async function inHere(home: string, argv: readonly string[]) {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const before = new Set(signals.flatMap((signal) => process.listeners(signal)));
  onTestFinished(() => {
    for (const signal of signals) {
      for (const one of process.listeners(signal)) if (!before.has(one)) process.off(signal, one);
    }
  });
  return perdure(argv, { cwd: home, env: { HOME: home } });
}

describe("perdure up", { timeout: TEST_MS }, () => {
  it("stopped by Ctrl-C, which reaches the terminal's whole process group, lets running jobs finish; a second one exits at once", async () => {
    const home = newHome();
    const [begun, go] = [join(home, "begun"), join(home, "go")];
    // `setsid` makes it the leader of a group, as a shell does with a job in the foreground.
    const proc = new Proc(home, ["up", ...QUIET, "--data", join(home, "data")], {}, ["setsid", "--wait"]);
    const said = await proc.ready;
    const client = await connect(said.url, tokenIn(said));
    const job = await client.submit("exec", sh(`echo begun > ${begun}; while [ ! -e ${go} ]; do sleep 0.1; done`));
    await until("the command runs", () => linesIn(begun).length === 1);
    // Two signals that arrive together, as from `timeout`, count as one.
    for (const signal of ["SIGSTOP", "SIGINT", "SIGTERM", "SIGCONT"]) process.kill(-said.pid, signal);
    await until("it is stopping", () => proc.log.includes("send it again to exit now"));
    writeFileSync(go, "");
    expect((await proc.ended).code, "the second ended it").toBe(0);
    const left = await Perdure.open(join(home, "data", "perdure.db"));
    onTestFinished(() => left.close());
    expect(await (await left.job(job.id)).get()).toMatchObject({ state: "succeeded", attempt: 1, losses: 0 });
  });

  it("with TLS still has workers, and is found by commands on its machine", async () => {
    const home = newHome();
    writeFileSync(join(home, "cert.pem"), TEST_CERT);
    writeFileSync(join(home, "key.pem"), TEST_KEY, { mode: 0o600 });
    const tls = ["--host", "0.0.0.0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    const proc = new Proc(home, ["up", ...QUIET, ...tls, "--data", "data"], {});
    expect((await proc.ready).url).toMatch(/^https:\/\//);
    const run = new Proc(home, ["run", "--data", "data", "--", "sh", "-c", "echo over TLS"], {});
    expect((await run.ended).code).toBe(0);
    expect(run.log).toContain("succeeded after 1 attempt");
  });

  it.each([
    ["a module that does not exist", ["--tasks", "./none.js"], /file "\.\/none\.js" does not exist/],
    ["an address of another database", ["--db", "mysql://x"], /got "mysql:…"/],
    ["the keyword form of a PostgreSQL address", ["--db", "host=db password=hidden"], /--db:/],
    ["an open network without TLS", ["--host", "0.0.0.0"], /--insecure/],
    ["a certificate without its key", ["--tls-cert", "x"], /--tls-cert requires --tls-key/],
    [
      "anonymous OPAL routes open to a network",
      ["--host", "0.0.0.0", "--insecure", "--opal-anonymous"],
      /opal\.anonymous/,
    ],
    [
      "a runtime folder within its data",
      ["--opal-runtime", "data/runtime"],
      /--opal-runtime: data\/runtime lies within/,
    ],
    ["a runtime folder around its data", ["--opal-runtime", "."], /--opal-runtime: \. contains the data directory/],
    [
      "a runtime folder that cannot be created",
      ["--opal-runtime", "none/at/all"],
      /none\/at does not exist; create it first/,
    ],
  ])("with %s exits with 2 and reports it", async (_what, args, words) => {
    const { code, stderr } = await inHere(newHome(), ["up", ...QUIET, "--data", "data", ...args]);
    expect(code).toBe(2);
    expect(stderr).toMatch(words);
    expect(stderr).not.toContain("hidden");
  });

  it.runIf(IS_FULL)("with a broken module, which its workers detect, exits with 2 and reports it", async () => {
    const home = newHome();
    writeFileSync(join(home, "bad.mjs"), "this is no module");
    const proc = new Proc(home, ["up", ...QUIET, "--data", "data", "--tasks", "./bad.mjs"], {});
    expect((await proc.ended).code).toBe(2);
    expect(proc.log).toMatch(/bad\.mjs cannot be loaded/);
  });
});

describe("servers", { timeout: TEST_MS }, () => {
  it.runIf(IS_FULL)("cannot share one SQLite file, whatever their data directories", async () => {
    const home = newHome();
    const env = { PERDURE_SECRET: SECRET };
    const first = new Proc(home, ["server", ...QUIET, "--data", "a", "--db", "./shared.db"], env);
    await first.ready;
    const other = ["server", ...QUIET, "--data", "b", "--db", join(home, "shared.db")];
    const second = await inHere(home, other);
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/shared\.db is in use by another server/);
    await first.kill();
    await new Proc(home, other, env).ready;
  });
});
