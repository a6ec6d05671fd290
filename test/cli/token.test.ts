/** `perdure token`, through a server, on a local data directory, and on a PostgreSQL database. */
import { chownSync, existsSync, lchownSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { readSecretFile } from "../../src/cli/serve/secret-file.ts";
import { SETTING } from "../../src/cli/serve/signing.ts";
import { rememberDatabase, ServerClaim } from "../../src/cli/target/server-notes.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { fingerprint } from "../../src/server/key-ring.ts";
import { openStore } from "../../src/store/open.ts";
import { newSchema } from "../postgres/kit.ts";
import { startServer } from "../server/kit.ts";
import { perdure } from "./kit.ts";
import { KINDS, newDir, openWhere } from "./targets.ts";

interface Shown {
  readonly id: string;
  readonly name: string;
  readonly revokedAt: number | null;
}

const TOKEN = /^pdr_([0-9a-z]{8})_[\w-]{43}\n$/;

describe.each(KINDS)("tokens of %s", (kind) => {
  it("are created, shown once, listed and revoked", async () => {
    const { ask, askJson } = await openWhere(kind);
    const made = await ask("token", "create", "ci", "--scope", "read", "--scope", "submit", "--expires", "30d");
    expect(made.code).toBe(0);
    const [, id = ""] = TOKEN.exec(made.stdout) ?? [];
    expect(id).not.toBe("");
    expect(made.stderr).toMatch(new RegExp(`^${id} \\(ci\\) may read, submit in the namespace default, until 20`));

    const listed = await ask("token", "list");
    expect(listed.stdout).toMatch(new RegExp(`^${id} +ci +read,submit +default +valid +\\S+ +\\S+$`, "m"));
    expect(listed.stdout).not.toContain(made.stdout.trimEnd());
    const json = await askJson<Shown[]>("token", "list");
    expect(json.find((token) => token.id === id)).toMatchObject({ name: "ci", revokedAt: null });
    expect(JSON.stringify(json)).not.toContain("hash");

    const all = await askJson<Shown & { token: string }>(
      "token",
      "create",
      "ops",
      "-s",
      "admin,read",
      "--all-namespaces",
    );
    expect(all).toMatchObject({ name: "ops", scopes: ["admin", "read"], namespace: null, expiresAt: null });
    expect(await ask("token", "revoke", id)).toMatchObject({ code: 0, stdout: `${id}: revoked\n` });
    const both = await ask("token", "revoke", all.token, "nobody00");
    expect(both).toMatchObject({ code: 1, stdout: `${all.id}: revoked\n` });
    expect(both.stderr).toContain("nobody00: no token has this id");
    expect((await ask("token", "list")).stdout).toMatch(new RegExp(`^${id} .* revoked `, "m"));
  });
});

describe("a token", () => {
  it("created on the database of a server is valid on that server", async () => {
    const server = await startServer();
    try {
      const cwd = newDir();
      const { stdout } = await perdure(["token", "create", "x", "-s", "read", "--db", server.storeUrl], { cwd });
      const token = stdout.trimEnd();
      await server.tokens.refresh(); // otherwise it happens within two seconds
      const reply = await server.call("GET", "/v1/identity", { token });
      expect(reply.body).toMatchObject({ name: "x", scopes: ["read"], namespace: "default" });
      const env = { PERDURE_TOKEN: token };
      expect((await perdure(["ps", "--server", server.url], { cwd, env })).code).toBe(0);
      expect((await perdure(["token", "list", "--server", server.url], { cwd, env })).code).toBe(1);
    } finally {
      await server.close();
    }
  });

  it("can be created on PostgreSQL without a server", async () => {
    const { url } = newSchema("token");
    const cwd = newDir();
    const { code, stdout } = await perdure(["token", "create", "x", "-s", "work", "--namespace", "n", "--db", url], {
      cwd,
    });
    expect(code).toBe(0);
    const listed = await perdure(["token", "list", "--json"], { cwd, env: { PERDURE_DB: url } });
    expect(JSON.parse(listed.stdout)).toMatchObject([{ id: stdout.split("_")[1], namespace: "n", scopes: ["work"] }]);
  });

  it.each([
    [["token"], 2, /missing subcommand\. Usage/],
    [["token", "creat", "x"], 2, /subcommand: must be one of .*; got "creat"\. Did you mean "create"\?/],
    [["token", "create", "--scope", "read"], 2, /missing NAME\./],
    [["token", "create", "x"], 2, /pass --scope: one or more of read, submit, work, admin/],
    [["token", "create", "x", "--scope", "reed"], 2, /--scope: must be one of .*read.*; got "reed"/],
    [["token", "create", "x\u0007", "--scope", "read"], 2, /NAME: must be 1 to 200 characters.*; got .*/],
    [["token", "create", "x", "y", "--scope", "read"], 2, /unexpected argument "y"/],
    [
      ["token", "create", "x", "-s", "read", "--expires", "30"],
      2,
      /--expires: must be a time with its unit.*; got "30"/,
    ],
    [["token", "create", "x", "-s", "read", "--expires", "0s"], 2, /--expires: /],
    [["token", "create", "x", "-s", "read", "--namespace", "n", "--all-namespaces"], 2, /cannot be used together/],
    [["token", "list", "--scope", "read"], 2, /--scope requires create, and cannot be used with list/],
    [["token", "create", "x", "-s", "read", "--grace", "1d"], 2, /--grace requires rotate-secret/],
    [
      ["token", "rotate-secret", "--server", "http://localhost:1"],
      2,
      /--server cannot be used with rotate-secret, which changes a file: run it on/,
    ],
    [["token", "rotate-secret", "--grace", "1"], 2, /--grace: must be a time with its unit.*; got "1"/],
    [["token", "rotate-secret"], 1, /no signing secret in .*\.perdure\/secret: start the server first.*--data/],
    [["token", "revoke"], 2, /missing ID\./],
    [
      ["token", "list", "--db", "x.db", "--server", "http://localhost:1"],
      2,
      /--db and --server cannot be used together/,
    ],
    [["token", "list"], 1, /no Perdure data in \.\/\.perdure/],
    [["token", "list", "--db", "postgres://localhost:1/none"], 1, /perdure token: /],
  ] as [string[], number, RegExp][])("answers %j with %d and one line", async (argv, code, line) => {
    const said = await perdure(argv, { cwd: newDir() });
    expect(said).toEqual({ code, stdout: "", stderr: expect.stringMatching(/^perdure token: [^\n]+\n$/) });
    expect(said.stderr).toMatch(line);
  });
});

describe("the signing secret", () => {
  const OLD = "o".repeat(40);
  const withFile = () => {
    const dir = newDir();
    writeFileSync(join(dir, "secret"), OLD, { mode: 0o600 });
    return { dir, file: join(dir, "secret"), read: () => readSecretFile(join(dir, "secret")) ?? [] };
  };

  it("is replaced in its file, and the old one is accepted for a day", async () => {
    const { dir, file, read } = withFile();
    const said = await perdure(["token", "rotate-secret", "--data", dir], { cwd: dir });
    expect(said).toMatchObject({ code: 0, stderr: "" });
    expect(said.stdout).toMatch(/secret: the new secret signs from .*\nthe old one is accepted until .*\n$/);
    const [first, second, ...more] = read();
    expect(more).toEqual([]);
    expect(second).toMatchObject({ text: OLD, until: (first?.signsFrom ?? 0) + 86_400_000 });
    expect(said.stdout).not.toContain(first?.text);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const leaked = await perdure(["token", "rotate-secret", "--data", dir, "--grace", "0s", "--json"], { cwd: dir });
    const { signsFrom, acceptedUntil } = JSON.parse(leaked.stdout);
    expect(acceptedUntil).toBe(signsFrom);
    expect(
      read()
        .slice(1)
        .every(({ until }) => (until ?? Number.NaN) <= signsFrom),
    ).toBe(true);
  });

  it.skipIf(process.geteuid?.() !== 0)("still belongs to the user of the server after root replaces it", async () => {
    const { dir, file } = withFile();
    expect((await perdure(["submit", "k", "--data", dir], { cwd: dir })).code).toBe(0);
    for (const path of [dir, file]) chownSync(path, 65534, 65534);
    const argv = ["token", "rotate-secret", "--data", dir];
    const ownerOf = (path: string) => [statSync(path).uid, statSync(path).gid, statSync(path).mode & 0o777];
    expect((await perdure(argv, { cwd: dir })).code).toBe(0);
    expect(ownerOf(file)).toEqual([65534, 65534, 0o600]);
    rmSync(file); // lost: only the directory still shows its user
    expect((await perdure([...argv, "--force"], { cwd: dir })).code).toBe(0);
    expect(ownerOf(file)).toEqual([65534, 65534, 0o600]);
    // The target of a link does not become a file of the owner of the link.
    const mine = withFile();
    rmSync(file);
    symlinkSync(mine.file, file);
    lchownSync(file, 65534, 65534);
    expect((await perdure(argv, { cwd: dir })).code).toBe(0);
    expect(ownerOf(file)[0]).toBe(0);
  });

  it.skipIf(process.geteuid?.() !== 0)(
    "of another user is not replaced by a user who cannot restore the owner",
    async () => {
      const { dir, file, read } = withFile();
      chownSync(file, 65534, 65534);
      const spy = vi.spyOn(process as Required<typeof process>, "geteuid").mockReturnValue(1234);
      const said = await perdure(["token", "rotate-secret", "--data", dir], { cwd: dir });
      spy.mockRestore();
      expect(said).toMatchObject({ code: 1, stdout: "" });
      expect(said.stderr).toContain(
        "is for the user with id 65534: run `sudo -u '#65534' perdure token rotate-secret …`",
      );
      expect(read()).toHaveLength(1);
    },
  );

  it("signs only after a delay for copying it if servers share a PostgreSQL database", async () => {
    const { dir, read } = withFile();
    const argv = ["token", "rotate-secret", "--data", dir];
    const before = Date.now();
    const said = await perdure(argv, { cwd: dir, env: { PERDURE_DB: "postgres://localhost:1/none" } });
    expect(said.code).toBe(0);
    expect(said.stderr).toMatch(
      /^copy \S+secret to all other servers of the database before .* Do not run this command there\n$/,
    );
    expect(read()[0]?.signsFrom).toBeGreaterThanOrEqual(before + 600_000);
    const env = { PERDURE_DB: "postgres://localhost:1/none" };
    const leaked = await perdure([...argv, "--grace", "1m"], { cwd: dir, env });
    expect(leaked.stderr).toMatch(/\nthe old secret signs until .*; if it leaked, run this again with --after 0s\n$/);
    const now = await perdure([...argv, "--grace", "1m", "--after", "0s"], { cwd: dir, env });
    expect(now.stderr).toMatch(/^copy \S+secret to all other servers of the database now: they cannot serve until/);
    expect(now.stderr.split("\n")).toHaveLength(2);
    // The leaked one is accepted for that minute, whatever an earlier rotation had set.
    for (const { until } of read().slice(1)) expect(until).toBeLessThanOrEqual(Date.now() + 60_000);
  });

  it("of the environment must be replaced there by hand", async () => {
    const said = await perdure(["token", "rotate-secret"], { cwd: newDir(), env: { PERDURE_SECRET: OLD } });
    expect(said).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/the secret is set by PERDURE_SECRET: add a new one/),
    });
    expect(said.stderr).not.toContain(OLD);
  });

  /** A store whose signing secret is lost: its fingerprint is stored, and no file has it. */
  const lost = async (url: string) => {
    const store = await openStore({ url, clock: systemClock, random: Math.random, newSecret: () => "n".repeat(40) });
    onTestFinished(() => store.close());
    await store.settings.setIfAbsent(SETTING, "the fingerprint of a secret that is lost");
    return store;
  };
  const printOf = (file: string) => fingerprint(readSecretFile(file)?.[0]?.text ?? "");

  it("that is lost is replaced with --force, and the store gets the fingerprint of the new one", async () => {
    const cwd = newDir();
    const db = join(cwd, "jobs.db");
    const store = await lost(db);
    const argv = ["token", "rotate-secret", "--force", "--db", db, "--secret-file", join(cwd, "secret")];
    expect(await perdure(argv, { cwd })).toMatchObject({ code: 0, stderr: "" });
    expect(await store.settings.get(SETTING)).toBe(printOf(join(cwd, "secret")));
    expect(readSecretFile(join(cwd, "secret"))).toHaveLength(1);
    expect((await store.events.page({ after: 0, limit: 9 })).events.map(({ name }) => name)).toEqual([
      "secret.replaced",
    ]);
    // A secret in the file is not lost: servers with a copy of the file keep working.
    expect((await perdure([...argv, "--after", "10m"], { cwd })).code).toBe(0);
    expect(await store.settings.get(SETTING)).toBe(fingerprint(readSecretFile(join(cwd, "secret"))?.[1]?.text ?? ""));
  });

  it.each([
    { PERDURE_URL: "http://127.0.0.1:1" },
    { PERDURE_URL: "http://127.0.0.1:1", PERDURE_TOKEN: `pdr_00000000_${"x".repeat(43)}` },
  ])("that is lost is replaced in the store of the directory, whatever server the environment names", async (env) => {
    const dir = newDir();
    const store = await lost(join(dir, "perdure.db"));
    const said = await perdure(["token", "rotate-secret", "--force"], { cwd: dir, env: { ...env, PERDURE_DATA: dir } });
    expect(said).toMatchObject({ code: 0, stderr: "" });
    expect(await store.settings.get(SETTING)).toBe(printOf(join(dir, "secret")));
  });

  it("that is lost is not replaced under a running server, nor where the store cannot be reached", async () => {
    const dir = newDir();
    const store = await lost(join(dir, "perdure.db"));
    const claim = await ServerClaim.take(dir);
    const argv = ["token", "rotate-secret", "--force", "--data", dir];
    const live = await perdure(argv, { cwd: dir });
    claim.release();
    expect(live).toMatchObject({ code: 1, stderr: expect.stringMatching(/server with pid \d+ is running.*stop it/) });
    writeFileSync(join(dir, "broken.db"), "not a database ".repeat(99));
    expect((await perdure([...argv, "--db", join(dir, "broken.db")], { cwd: dir })).code).not.toBe(0);
    rememberDatabase(dir, "postgres://db.example/jobs");
    const elsewhere = await perdure(argv, { cwd: dir });
    expect(elsewhere).toMatchObject({ code: 1, stderr: expect.stringContaining("are in postgres://db.example/jobs") });
    expect(existsSync(join(dir, "secret"))).toBe(false);
    expect(await store.settings.get(SETTING)).toBe("the fingerprint of a secret that is lost");
  });

  it("is shown by no command", async () => {
    const { dir } = withFile();
    const env = { PERDURE_SECRET: "e".repeat(40) };
    for (const argv of [["config"], ["config", "--json"], ["doctor", "--data", dir]]) {
      const { stdout, stderr } = await perdure(argv, { cwd: dir, env });
      expect(stdout + stderr).not.toMatch(/e{40}|o{40}/);
    }
    const bad = await perdure(["server", "--data", dir], { cwd: dir, env: { PERDURE_SECRET: "too-short-a-secret" } });
    expect(bad).toMatchObject({ code: 2, stderr: expect.stringMatching(/PERDURE_SECRET: .*32 to 200 characters/) });
    expect(bad.stderr).not.toContain("too-short");
  });
});

it("is not made for a server whose address is refused", async () => {
  const dir = newDir();
  const refused = await perdure(["server", "--host", "0.0.0.0", "--data", join(dir, "data")], { cwd: dir });
  expect(refused).toMatchObject({ code: 2, stdout: "" });
  expect(refused.stderr).toMatch(/^perdure server: server\.host: 0\.0\.0\.0 accepts connections [^\n]*\n$/);
  expect(readdirSync(dir)).toEqual([]);
});
