/** How servers start and stop: in a terminal, with TLS, with mistakes, and beside each other. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TEST_CERT, TEST_KEY } from "../server/tls.ts";
import { connect, linesIn, newHome, Proc, sh, TEST_MS, tokenIn, until } from "./kit.ts";

const QUIET = ["--port", "0", "--json"];

describe("perdure up", { timeout: TEST_MS }, () => {
  it("stopped by Ctrl-C, which the whole group of a terminal gets, lets running jobs finish", async () => {
    const home = newHome();
    const begun = join(home, "begun");
    // `setsid` makes it the leader of a group, as a shell does with a job in the foreground.
    const proc = new Proc(home, ["up", ...QUIET, "--data", join(home, "data")], {}, ["setsid", "--wait"]);
    const said = await proc.ready;
    const client = await connect(said.url, tokenIn(said));
    const job = await client.submit("exec", sh(`echo begun > ${begun}; sleep 1; echo done`));
    await until("the command runs", () => linesIn(begun).length === 1);
    process.kill(-said.pid, "SIGINT");
    expect((await proc.ended).code).toBe(0);
    const again = new Proc(home, ["up", ...QUIET, "--data", join(home, "data"), "--workers", "0"], {});
    const later = await connect((await again.ready).url, tokenIn(said));
    expect(await (await later.job(job.id)).get()).toMatchObject({ state: "succeeded", attempt: 1, losses: 0 });
  });

  it("takes two signals that come together, as from `timeout`, for one", async () => {
    const home = newHome();
    const proc = new Proc(home, ["up", ...QUIET, "--data", "data"], {});
    await proc.ready;
    proc.signal("SIGTERM");
    proc.signal("SIGTERM");
    expect((await proc.ended).code).toBe(0);
  });

  it("with TLS has workers all the same, and is found by commands on its machine", async () => {
    const home = newHome();
    writeFileSync(join(home, "cert.pem"), TEST_CERT);
    writeFileSync(join(home, "key.pem"), TEST_KEY, { mode: 0o600 });
    const tls = ["--host", "0.0.0.0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    const proc = new Proc(home, ["up", ...QUIET, ...tls, "--data", "data"], {});
    expect((await proc.ready).url).toMatch(/^https:\/\//);
    const run = new Proc(home, ["run", "--data", "data", "--", "sh", "-c", "echo over TLS"], {});
    expect((await run.ended).code).toBe(0);
    expect(run.log).toContain("succeeded after 1 run");
  });

  it.each([
    ["a module that is not there", ["--tasks", "./none.js"], /there is no file \.\/none\.js/],
    ["a module with a mistake", ["--tasks", "./bad.mjs"], /bad\.mjs cannot be loaded/],
    ["an address of another database", ["--db", "mysql://x"], /got "mysql:…"/],
    ["the other form of PostgreSQL's addresses", ["--db", "host=db password=hidden"], /--db:/],
    ["an open network without TLS", ["--host", "0.0.0.0"], /--insecure/],
    ["a certificate without its key", ["--tls-cert", "x"], /give both/],
    ["OPAL's door open to a network", ["--host", "0.0.0.0", "--insecure", "--opal-anonymous"], /opal\.anonymous/],
  ])("with %s ends with 2 and says so", async (_what, args, words) => {
    const home = newHome();
    writeFileSync(join(home, "bad.mjs"), "this is no module");
    const proc = new Proc(home, ["up", ...QUIET, "--data", "data", ...args], {});
    expect((await proc.ended).code).toBe(2);
    expect(proc.log).toMatch(words);
    expect(proc.log).not.toContain("hidden");
  });
});

describe("servers", { timeout: TEST_MS }, () => {
  it("on one SQLite file are not two, whatever their data directories", async () => {
    const home = newHome();
    const first = new Proc(home, ["server", ...QUIET, "--data", "a", "--db", "./shared.db"], {});
    await first.ready;
    const second = new Proc(home, ["server", ...QUIET, "--data", "b", "--db", "./shared.db"], {});
    expect((await second.ended).code).toBe(1);
    expect(second.log).toMatch(/shared\.db is in use by another server/);
    await first.kill();
    await new Proc(home, ["server", ...QUIET, "--data", "b", "--db", "./shared.db"], {}).ready;
  });
});
