// Builds dist/: types and plain JavaScript by the compiler, then the JavaScript bundled into few files, because a command that
// loads 250 modules spends most of its time loading them. Every entry point imports the same chunks, so a task module that
// imports `perdure` meets the copy which the command line runs. Nothing is minified: a stack trace shows real names.
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const [compiled, dist] = [`${root}build`, `${root}dist`];
const ENTRIES = ["index", "worker/index", "client/index", "core/index", "dialects/index", "testing/index", "cli/main"];

/** Modules that the same of these programs load are in one chunk. As each program is complete in itself, no two chunks import each
 *  other, and a program with the client alone loads nothing of the engine. What none of them loads is cut by its use. */
const PROGRAMS = {
  client: ["client/index"],
  core: ["core/index"],
  embedded: ["cli/main", "cli/commands/ps", "cli/target/open-store", "index"],
};

let modules;

/** The chunk of a module, by the graph which the bundler knows. */
function chunkOf(id, graph) {
  modules ??= Object.entries(PROGRAMS).map(([name, entries]) => [name, modulesOf(entries, graph)]);
  // The command line finds out by its own file whether it was started.
  if (graph.getModuleInfo(id)?.isEntry) return null;
  const names = modules.filter(([, ids]) => ids.has(id)).map(([name]) => name);
  return names.length === 0 ? null : names.join("-");
}

function modulesOf(entries, graph) {
  const ids = new Set();
  const add = (id) => {
    if (ids.has(id) || graph.getModuleInfo(id) === null) return;
    ids.add(id);
    for (const imported of graph.getModuleInfo(id).importedIds) add(imported);
  };
  for (const entry of entries) add(`${compiled}/${entry}.js`);
  return ids;
}

for (const folder of [compiled, dist]) rmSync(folder, { recursive: true, force: true });
const tsc = fileURLToPath(import.meta.resolve("typescript/package.json")).replace("package.json", "bin/tsc");
try {
  execFileSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
} catch {
  process.exit(1); // the compiler has printed why
}
const bundle = await rolldown({
  cwd: root,
  platform: "node",
  input: Object.fromEntries(ENTRIES.map((name) => [name, `${compiled}/${name}.js`])),
  external: (id) => !/^[./]/.test(id),
  preserveEntrySignatures: "allow-extension",
  checks: { ineffectiveDynamicImport: false },
});
await bundle.write({
  dir: dist,
  format: "esm",
  comments: { annotation: false, jsdoc: false, legal: true },
  entryFileNames: "[name].js",
  chunkFileNames: "chunks/[name]-[hash].js",
  codeSplitting: {
    includeDependenciesRecursively: false,
    groups: [{ debugName: "by entry point", name: (id, graph) => chunkOf(id, graph) }],
  },
});
await bundle.close();

const written = new Set();
for (const name of ENTRIES) if (name !== "cli/main") copyTypes(`${name}.d.ts`);

// The supervisor is a program of its own, which imports nothing of the bundle. It is started from the chunk beside it.
for (const file of ["supervisor.mjs", "processes.mjs"])
  cpSync(`${compiled}/worker/exec/${file}`, `${dist}/chunks/${file}`);
rmSync(compiled, { recursive: true });

/** Copies the types of a module and of all that they import, and not those of modules which nobody can import. */
function copyTypes(file) {
  if (written.has(file)) return;
  written.add(file);
  cpSync(`${compiled}/${file}`, `${dist}/${file}`);
  for (const [, target] of readFileSync(`${compiled}/${file}`, "utf8").matchAll(/(?:from |import\()"(\.[^"]+)\.ts"/g)) {
    copyTypes(`${posix.join(posix.dirname(file), target)}.d.ts`);
  }
}
