/** What `npm pack` would publish: which files, that each import is satisfied, and that a program finds types and code in it,
 *  also with the oldest supported compiler and with the resolution of Node 10. */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const run = promisify(execFile);

let files: string[];
let program: string;

beforeAll(async () => {
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: ROOT });
  files = JSON.parse(stdout)[0].files.map(({ path }: { path: string }) => path);
  // A program beside the package as it would be installed, with what the package depends on.
  program = mkdtempSync(join(tmpdir(), "perdure-package-"));
  const modules = join(program, "node_modules");
  for (const file of files) cpSync(join(ROOT, file), join(modules, "perdure", file));
  for (const name of [...Object.keys(manifest.dependencies), "@types/node", "@types/pg", "@photostructure/sqlite"]) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  }
  writeFileSync(join(program, "package.json"), '{ "type": "module" }');
  writeFileSync(join(program, "program.ts"), PROGRAM);
});
afterAll(() => rmSync(program, { recursive: true, force: true }));

const PROGRAM = `
import { type JobInfo, Perdure, task } from "perdure";
import { Perdure as Client } from "perdure/client";
import { duration } from "perdure/core";
import * as dialects from "perdure/dialects";
import * as testing from "perdure/testing";
import { connectWorker } from "perdure/worker";

const greet = task("greet", {}, async (input: { name: string }) => \`hi \${input.name}\`);
export async function main(): Promise<string> {
  await using perdure = await Perdure.open({ url: ":memory:" });
  const job = await perdure.submit(greet, { name: "x" });
  const greeting: string = await job.result();
  const info: JobInfo = await job.get();
  // @ts-expect-error: a name is text
  await perdure.submit(greet, { name: 1 });
  void [Client, duration, dialects, testing, connectWorker, info];
  return greeting;
}
`;

it("has the build, the docs and the examples, and nothing that only development needs", () => {
  const kinds = new Set(files.map((file) => (file.includes("/") ? file.split("/")[0] : file)));
  expect([...kinds].sort()).toEqual(
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "dist", "docs", "examples", "package.json"], // biome-ignore format: one list
  );
  expect(files.filter((file) => /\.map$|\.test\.|conformance|testing-|fixtures/.test(file))).toEqual([]);
});

it("has each file that its manifest names", () => {
  const named = JSON.stringify([manifest.main, manifest.types, manifest.typesVersions, manifest.exports, manifest.bin]);
  const targets = [...named.matchAll(/"(?:\.\/)?(dist\/[^"]+)"/g)].map(([, path = ""]) => path);
  expect(targets.length).toBeGreaterThan(12);
  expect(targets.filter((path) => !files.includes(path))).toEqual([]);
  // The resolution of Node 10 does not read `exports`: each of its entry points is in `typesVersions` too.
  const entries = Object.keys(manifest.exports).filter((name) => name !== ".");
  expect(Object.keys(manifest.typesVersions["*"])).toEqual(entries.map((name) => name.slice(2)));
});

it("imports only its own files, Node and what it depends on", () => {
  const known = new Set([...builtinModules.map((name) => `node:${name}`), "node:sqlite"]);
  const packages = { ...manifest.dependencies, ...manifest.optionalDependencies };
  const missing: string[] = [];
  for (const file of files.filter((file) => /^dist\/.*\.(js|mjs|d\.ts)$/.test(file))) {
    const text = readFileSync(join(ROOT, file), "utf8");
    const imports = text.matchAll(
      /^(?:import|export)\b[^;"]*?\bfrom "([^"]+)";|^import "([^"]+)";|\bimport\("([^"]+)"\)/gm,
    );
    for (const [, from, bare, lazy] of imports) {
      const target = from ?? bare ?? lazy ?? "";
      const path = join(dirname(file), target.replace(/(?<!\.d)\.ts$/, ".d.ts"));
      const found = target.startsWith(".")
        ? files.includes(path)
        : known.has(target) || Object.keys(packages).some((name) => target === name || target.startsWith(`${name}/`));
      if (!found) missing.push(`${file}: ${target}`);
    }
  }
  expect(missing).toEqual([]);
});

it("has a client that loads nothing of Node, so that it runs in a browser", () => {
  const seen = new Set<string>();
  const outside: string[] = [];
  const load = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, target = ""] of readFileSync(join(ROOT, file), "utf8").matchAll(
      /^(?:import|export)\b[^;"]*"([^"]+)";/gm,
    )) {
      if (target.startsWith(".")) load(join(dirname(file), target));
      else outside.push(target);
    }
  };
  load("dist/client/index.js");
  expect(seen.size).toBeGreaterThan(1);
  expect(outside).toEqual([]);
});

const COMPILERS = [
  { compiler: "typescript-oldest", module: "esnext", resolution: "node10" },
  { compiler: "typescript-oldest", module: "nodenext", resolution: "nodenext" },
  { compiler: "typescript", module: "nodenext", resolution: "nodenext" },
  { compiler: "typescript", module: "esnext", resolution: "bundler" },
];

it.each(COMPILERS)("is typed for $compiler with the resolution $resolution", async (row) => {
  const tsc = join(ROOT, "node_modules", row.compiler, "bin/tsc");
  const options = [
    "--strict",
    "--noEmit",
    "--target",
    "es2022",
    "--lib",
    "es2022,esnext.disposable",
    "--types",
    "node",
  ];
  const how = ["--module", row.module, "--moduleResolution", row.resolution, "--skipLibCheck", "true"];
  const { stdout } = await run(process.execPath, [tsc, ...options, ...how, "program.ts"], { cwd: program }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toBe("");
});

it("runs from where it is installed: each entry point, and the command", async () => {
  const names = Object.keys(manifest.exports).map((name) => name.replace(/^\./, "perdure"));
  const script = `for (const name of ${JSON.stringify(names)}) console.log(name, Object.keys(await import(name)).length > 0);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script], { cwd: program });
  expect(stdout).toBe(names.map((name) => `${name} true\n`).join(""));
  const command = join(program, "node_modules/perdure", manifest.bin.perdure);
  expect(existsSync(command)).toBe(true);
  const { stderr } = await run(process.execPath, [command, "run", "--", "true"], { cwd: program });
  expect(stderr).toContain("succeeded after 1 attempt");
});

it("gives a task module the classes that the command line uses", async () => {
  const script = `
    const all = await Promise.all(["perdure", "perdure/client", "perdure/worker"].map((name) => import(name)));
    console.log(new Set(all.map(({ PerdureError }) => PerdureError)).size, new Set(all.map(({ task }) => task)).size);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script], { cwd: program });
  expect(stdout).toBe("1 1\n");
});
