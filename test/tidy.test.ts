/** Rules for the whole tree: which folder may import which, where time and randomness may come from, and that the error
 *  table and its page agree. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ERROR_CODES } from "../src/core/errors.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

function filesUnder(folder: string): string[] {
  const entries = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && /\.(ts|mjs)$/.test(entry.name));
  return files.map((entry) => relative(ROOT, join(entry.parentPath, entry.name)).split(sep).join("/")).sort();
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}

/** Tests, and code that only tests use, may import anything. */
const isTest = (file: string) => file.endsWith(".test.ts") || file.startsWith("src/store/conformance/");
const SOURCES = filesUnder("src").filter((file) => !isTest(file));
const TESTS = [...filesUnder("src").filter(isTest), ...filesUnder("test")];

interface Import {
  readonly file: string;
  /** A path from the root for our own files, else the specifier itself. */
  readonly target: string;
  readonly typeOnly: boolean;
}

const IMPORT = /^(?:import|export)\s+(type\s+)?(?:[^"';]*?\sfrom\s+)?"([^"]+)";$/gm;
const LAZY = /\bimport\(\s*"([^"]+)"\s*\)/g;

function importsOf(file: string): Import[] {
  const text = read(file);
  const found = [...text.matchAll(IMPORT)].map(([, type, target = ""]) => ({ target, typeOnly: type !== undefined }));
  for (const [, target = ""] of text.matchAll(LAZY)) found.push({ target, typeOnly: false });
  return found.map(({ target, typeOnly }) => {
    const ours = target.startsWith(".") ? join(dirname(file), target).split(sep).join("/") : target;
    return { file, target: ours, typeOnly };
  });
}

/** `src/core/errors.ts` is in `core`; `src/index.ts` in none. What a dialect adds to the server or the command line is
 *  in a separate folder with other rights than its readers: `dialects/server`, `dialects/cli`. */
function folderOf(path: string): string {
  const [, folder = "", dialect, ...within] = path.split("/");
  if (!path.startsWith("src/") || dialect === undefined) return "";
  // What is common to those of all dialects is in `dialects/cli/` itself.
  const [layer, ...rest] = dialect === "cli" ? [dialect, ...within] : within;
  const isLayer = rest.length > 0 && (layer === "server" || layer === "cli");
  return folder === "dialects" && isLayer ? `dialects/${layer}` : folder;
}

/** `typebox/value` belongs to `typebox`. */
function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Files that import each other, directly or through others: Tarjan's strongly connected components. */
function cyclesOf(imports: readonly Import[]): string[][] {
  const next = new Map<string, string[]>();
  for (const { file, target } of imports) next.set(file, [...(next.get(file) ?? []), target]);
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    low.set(file, index.get(file) as number);
    stack.push(file);
    for (const target of next.get(file) ?? []) {
      if (!index.has(target)) visit(target);
      if (stack.includes(target)) low.set(file, Math.min(low.get(file) as number, low.get(target) as number));
    }
    if (low.get(file) !== index.get(file)) return;
    const cycle = stack.splice(stack.indexOf(file));
    if (cycle.length > 1) cycles.push(cycle.sort());
  };
  for (const file of next.keys()) if (!index.has(file)) visit(file);
  return cycles;
}

/** Allowed imports. A folder may always import itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  lib: [],
  files: ["lib"],
  dialects: ["core"],
  contract: ["core"],
  yaml: [],
  store: ["core", "lib", "files"],
  engine: ["core", "lib", "store"], // of the store its port only: see below
  wire: ["core", "contract"],
  worker: ["core", "contract", "wire", "lib", "files"],
  // Wires the library together, and passes the address of a server to the client.
  embedded: ["core", "lib", "store", "engine", "worker", "client", "contract", "dialects", "yaml"], // of the dialects their settings and playbooks only
  testing: ["embedded", "core", "lib", "store"],
  server: ["core", "lib", "store", "engine", "contract", "dialects", "yaml"], // of the store types and ports only: see below
  client: ["core", "contract", "wire", "lib"],
  cli: ["core", "lib", "dialects", "contract", "store", "engine", "worker", "embedded", "server", "client", "yaml"],
};
const SERVER = [...(MAY_IMPORT.server ?? []), "server", "dialects"];
const CLI = [...(MAY_IMPORT.cli ?? []), "cli", "dialects"];

/** What a dialect adds to the server and the command line. */
const rightsOf = (folder: string): readonly string[] | undefined => {
  if (folder === "dialects/server") return SERVER;
  if (folder === "dialects/cli") return [...CLI, "dialects/server"];
  if (folder === "server") return [...SERVER, "dialects/server"];
  return folder === "cli" ? [...CLI, "dialects/cli", "dialects/server"] : MAY_IMPORT[folder];
};

describe("imports", () => {
  const all = SOURCES.flatMap(importsOf);
  const ours = all.filter(({ target }) => target.startsWith("src/"));
  const show = ({ file, target }: Import) => `${file} imports ${target}`;

  it("are all seen by this test", () => {
    expect(ours.length).toBeGreaterThan(150);
    for (const file of SOURCES) {
      const lines = read(file).match(/^(import\b(?!\()|\} from |export .* from )/gm) ?? [];
      expect(importsOf(file).length, file).toBeGreaterThanOrEqual(lines.filter((line) => line !== "} from ").length);
    }
  });

  it("go only in the directions of the table", () => {
    const wrong = ours.filter(({ file, target }) => {
      const [from, to] = [folderOf(file), folderOf(target)];
      return from !== "" && from !== to && !rightsOf(from)?.includes(to);
    });
    expect(wrong.map(show)).toEqual([]);
    expect(SOURCES.map(folderOf).filter((folder) => folder !== "" && rightsOf(folder) === undefined)).toEqual([]);
  });

  it("of the engine and the server reach the store's ports and no adapter; of the test kit, its types", () => {
    const toStore = ours.filter(({ target }) => folderOf(target) === "store");
    const ports = ["src/store/store.ts", "src/store/blobs.ts"];
    const others = toStore.filter(({ target, typeOnly }) => !ports.includes(target) && !typeOnly);
    expect(others.filter(({ file }) => /(^|\/)server$/.test(folderOf(file))).map(show)).toEqual([]);
    const engine = toStore.filter(({ file }) => folderOf(file) === "engine");
    expect(engine.filter(({ target }) => !ports.includes(target)).map(show)).toEqual([]);
    const kit = toStore.filter(({ file, typeOnly }) => folderOf(file) === "testing" && !typeOnly);
    expect(kit.map(show)).toEqual([]);
  });

  it("of the command line reach the store through `store/open.ts`, except where servers are started", () => {
    const toStore = ours.filter(({ file, target }) => folderOf(file) === "cli" && folderOf(target) === "store");
    const direct = toStore.filter(({ target }) => target !== "src/store/open.ts");
    expect(direct.filter(({ file }) => !file.startsWith("src/cli/serve/")).map(show)).toEqual([]);
  });

  it("of the library reach the settings of the dialects and their playbooks, and nothing else of them", () => {
    const reaching = ours.filter(
      ({ file, target }) => folderOf(file) === "embedded" && folderOf(target) === "dialects",
    );
    const entries = ["src/dialects/settings.ts", "src/dialects/playbooks.ts"];
    expect(reaching.filter(({ target }) => !entries.includes(target)).map(show)).toEqual([]);
  });

  it("of an adapter never reach another, and only `store/open.ts` chooses one", () => {
    const adapterOf = (path: string) => /^src\/store\/(sqlite|postgres)\//.exec(path)?.[1];
    const reaching = ours.filter(({ target, file }) => adapterOf(target) && adapterOf(target) !== adapterOf(file));
    expect(reaching.filter(({ file }) => file !== "src/store/open.ts").map(show)).toEqual([]);
  });

  it("from outside are few: the Jinja parser in core, nothing in lib, wire and client, Node and what a folder is for elsewhere", () => {
    const guests: Readonly<Record<string, readonly string[]>> = {
      contract: ["typebox"],
      server: ["typebox", "fastify"],
      "dialects/server": ["fastify"],
      cli: ["yaml"], // its types, to write a value
      yaml: ["yaml"],
    };
    const outside = all.filter(({ target }) => !target.startsWith("src/"));
    const allowed = ({ file, target }: Import) => {
      if (folderOf(file) === "core") return target === "@huggingface/jinja";
      if (["lib", "wire", "client"].includes(folderOf(file))) return false;
      if (guests[folderOf(file)]?.includes(packageOf(target))) return true;
      if (file === "src/store/sqlite/driver.ts" && target === "@photostructure/sqlite") return true;
      if (target === "pg") return /^src\/(store|worker)\/postgres\//.test(file);
      return target.startsWith("node:");
    };
    expect(outside.filter((each) => !allowed(each)).map(show)).toEqual([]);
  });

  it("name files that exist, so that only entry points re-export", () => {
    const known = new Set(filesUnder("src"));
    expect(ours.filter(({ target }) => !known.has(target)).map(show)).toEqual([]);
    const barrels = ours.filter(({ target }) => /\/index\.ts$/.test(target));
    expect(barrels.map(show)).toEqual([]);
  });

  it("form no cycles, of values or of types", () => {
    expect(cyclesOf(ours)).toEqual([]);
  });

  it("leave no file that is never imported", () => {
    // The supervisor is a separate program.
    const doors = [
      ...["src/index.ts", "src/core/index.ts", "src/testing/index.ts", "src/client/index.ts", "src/worker/index.ts"],
      ...["src/cli/main.ts", "src/worker/exec/supervisor.mjs"],
    ];
    const imported = new Set([...SOURCES, ...TESTS].flatMap(importsOf).map(({ target }) => target));
    expect(SOURCES.filter((file) => !doors.includes(file) && !imported.has(file))).toEqual([]);
  });
});

describe("time and randomness", () => {
  const CLOCKS = [
    "Date.now",
    "performance.now",
    "Math.random",
    "randomUUID",
    "setTimeout",
    "setInterval",
    "setImmediate",
    "nextTick",
    "queueMicrotask",
  ];
  /** Where a folder or file may use what others may not. */
  const ALLOWED: readonly (readonly [string, readonly string[]])[] = [
    ["src/lib/system-clock.ts", CLOCKS],
    ["src/lib/system-timers.ts", CLOCKS],
    ["src/store/sqlite/open.ts", ["setTimeout"]], // before there is an engine
    ["src/store/sqlite/watch.ts", ["setInterval"]], // of the file system,
    ["src/worker/exec/supervisor.mjs", CLOCKS], // a separate program, which outlives its worker
  ];

  it("come from outside: core, lib, wire, store, engine and worker do not create them", () => {
    const wrong: string[] = [];
    for (const file of SOURCES) {
      if (!["core", "lib", "wire", "store", "engine", "worker"].includes(folderOf(file))) continue;
      const allowed = ALLOWED.filter(([where]) => file.startsWith(where)).flatMap(([, names]) => names);
      const code = withoutComments(read(file));
      for (const name of CLOCKS) if (code.includes(name) && !allowed.includes(name)) wrong.push(`${file}: ${name}`);
      if (/new Date\(\)|\bDate\(\)/.test(code)) wrong.push(`${file}: new Date()`);
    }
    expect(wrong).toEqual([]);
  });
});

/** Good enough for our own sources: no string of theirs holds the start of a comment. */
function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/^\s*\/\/.*$| \/\/ .*$/gm, "");
}

describe("sources", () => {
  it("are files of at most 400 lines", () => {
    const long = SOURCES.map((file) => [file, read(file).split("\n").length - 1] as const);
    expect(long.filter(([, lines]) => lines > 400)).toEqual([]);
  });

  it("declare no two types of one name", () => {
    // The library is called Perdure at each entry point; a package's own name is augmented, not declared.
    const shared = ["Perdure", "ConnectOptions", "FastifyRequest"];
    const DECLARED =
      /^ *(?:export )?(?:declare )?(?:(?:abstract )?(?:interface|class) (?=\w+[ <{])|type (?=\w+(?:<[^=]*>)? =))(\w+)/gm;
    const places = new Map<string, string[]>();
    for (const file of SOURCES) {
      for (const [, name = ""] of read(file).matchAll(DECLARED)) {
        places.set(name, [...(places.get(name) ?? []), file]);
      }
    }
    const twice = [...places].filter(([name, files]) => new Set(files).size > 1 && !shared.includes(name));
    expect(twice).toEqual([]);
  });

  it("name files in their comments that exist", () => {
    const names = new Set([...SOURCES, ...TESTS].map((file) => file.split("/").at(-1)));
    const missing = [...SOURCES, ...TESTS].flatMap((file) => {
      const comments = read(file).match(/^ *(\/\/|\/?\*).*$/gm) ?? [];
      const named = comments.flatMap((line) => line.match(/(?<![\w*.-])[a-z][\w-]*(\.test)?\.ts\b/g) ?? []);
      return named.filter((name) => !names.has(name)).map((name) => `${file}: ${name}`);
    });
    expect(missing).toEqual([]);
  });

  it("use nothing that turns text into code or a shell", () => {
    const wrong = SOURCES.filter((file) => {
      // In a dialect it is text from an author: input of a job, for a shell that its own file names.
      const text = withoutComments(read(file));
      const isShell = folderOf(file) !== "dialects" && text.includes("shell: true");
      return isShell || /\beval\(|new Function\(|node:vm/.test(text);
    });
    expect(wrong).toEqual([]);
  });

  it("outside the dialects name no source system, except in presets", () => {
    // A preset is part of the policy format, so the list of presets and their table name the systems they come from.
    const allowed = ["src/core/policy/policy.ts", "src/core/policy/presets.ts"];
    const NAMES = /\bopal|opal\b|fluster|noetl|attune|agent[-_ ]?task|cluster[-_ ]?agent[-_ ]?role|hortator/i;
    const others = SOURCES.filter((file) => !file.startsWith("src/dialects/") && !allowed.includes(file));
    const lines = others.flatMap((file) =>
      read(file)
        .split("\n")
        .filter((line) => NAMES.test(line))
        .map((line) => `${file}: ${line.trim()}`),
    );
    expect(lines).toEqual([]);
  });

  it("in lib are small", () => {
    const lib = SOURCES.filter((file) => folderOf(file) === "lib");
    expect(lib.filter((file) => read(file).split("\n").length > 200)).toEqual([]);
  });
});

describe("tests", () => {
  it("never use `only`, and are skipped only with the reason in their name", () => {
    const wrong = TESTS.filter((file) => file !== "test/tidy.test.ts").flatMap((file) => {
      const lines = read(file).split("\n");
      return lines
        .filter((line) => /\.only\(/.test(line) || (/\.skip\(/.test(line) && !line.includes("NOT TESTED, because")))
        .map((line) => `${file}: ${line.trim()}`);
    });
    expect(wrong).toEqual([]);
  });
});

describe("the error table", () => {
  it("and docs/errors.md name the same codes", () => {
    const documented = [...read("docs/errors.md").matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, code]) => code as string);
    expect([...documented].sort()).toEqual(Object.keys(ERROR_CODES).sort());
  });

  it("has no code that nothing raises, except reserved ones", () => {
    const reserved = [...read("docs/errors.md").matchAll(/^\| `([a-z_]+)` \| reserved /gm)].map(([, code]) => code);
    const raisers = SOURCES.filter((file) => file !== "src/core/errors.ts").map(read);
    const unused = Object.keys(ERROR_CODES).filter((code) => !raisers.some((text) => text.includes(`"${code}"`)));
    expect(unused.filter((code) => code !== "invalid_config")).toEqual(reserved); // ConfigError raises that one
  });
});

describe("the architecture page", () => {
  it("names files that exist, and counts the files of its walkthroughs", () => {
    const page = read("ARCHITECTURE.md");
    const named = [...page.matchAll(/`((?:src|test|docs)\/[^`*]+)`/g)].map(([, path]) => path as string);
    expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
    const walked = [...page.matchAll(/^\| \w* *\| `(src\/[^`]+\.ts)` \|/gm)].map(([, path]) => path as string);
    expect(walked).toEqual([...new Set(walked)]);
    const counts = [...page.matchAll(/^(\d+) files pass /gm)].map(([, count]) => Number(count));
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(walked.length);
  });
});

describe("the lock file", () => {
  it("names no registry, so that installs use the one that is configured", () => {
    expect(read("package-lock.json")).not.toMatch(/"resolved": "https?:|registry\./);
  });
});
