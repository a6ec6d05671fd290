/** Runs the code in the README and the guides, so that it stays correct. Marks of fences: `ts runnable`: a complete
 *  program, type-checked and run in a project with the built package installed · `text output`: the output of the
 *  program above · `ts policy`: a policy, type-checked and resolved · `yaml playbook`: a playbook, or its body without the
 *  head, which must have no problems · `sql runnable`: run on a store's schema, in place
 *  of the schema `perdure`.
 *  Programs find a PostgreSQL server, and a schema for themselves, at the address in PERDURE_DB. */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Perdure } from "perdure";
import { ConfigError, resolvePolicy } from "perdure/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Fence, fencesIn, ROOT } from "./fences.ts";
import { readTest, readText } from "./playbook-text.ts";
import { ask } from "./postgres/client.ts";
import { newSchema } from "./postgres/kit.ts";
import { IS_FULL } from "./tier.ts";

const TSX = join(ROOT, "node_modules/tsx/dist/cli.mjs");
const PAGES = [
  ...["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"],
  ...["docs", "docs/guides", "docs/decisions", "docs/internals"].flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `${folder}/${name}`),
  ),
];

interface Block extends Fence {
  readonly file: string;
}

const blocks = PAGES.flatMap(blocksOf);
const programs = blocks.filter((block) => block.info === "ts runnable");
/** `npm test` runs those of the README, and type-checks all. */
const programsToRun = programs.filter((block) => IS_FULL || block.page === "README.md");
const policies = blocks.filter((block) => block.info === "ts policy");
const playbooks = blocks.filter((block) => block.info === "yaml playbook");
const queries = blocks.filter((block) => block.info === "sql runnable");

function blocksOf(page: string): Block[] {
  return fencesIn(page).map((fence) => ({ ...fence, file: `${page.replaceAll(/\W/g, "-")}-${fence.line}.ts` }));
}

/** A user's project with the package built from this tree installed. */
let project = "";

beforeAll(() => {
  if (!existsSync(join(ROOT, "dist/index.js"))) throw new Error("the docs run the built package: npm run build");
  project = mkdtempSync(join(tmpdir(), "perdure-docs-"));
  mkdirSync(join(project, "node_modules/@types"), { recursive: true });
  symlinkSync(ROOT, join(project, "node_modules/perdure"), "dir");
  for (const name of ["@types/node", "@types/pg", "pg", "zod"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(project, "node_modules", name), "dir");
  }
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
  for (const { file, body } of programs) writeFileSync(join(project, file), body);
  for (const { file, body } of policies) {
    const head = 'import type { PolicyInput } from "perdure";\nexport const policy: PolicyInput = ';
    writeFileSync(join(project, file), `${head}${body.trimEnd()};\n`);
  }
});

afterAll(() => rmSync(project, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  const options = { cwd: project, env: { ...process.env, ...env } };
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => {
    stdout += String(chunk);
  });
  child.stderr.on("data", (chunk) => {
    stderr += String(chunk);
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** Removes what differs between runs: ids, times, and the duration of a real run. */
function steady(text: string): string[] {
  const lines = text
    .replaceAll(/\b(job|ses)_[0-9a-z]{26}\b/g, "$1_ID")
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "INSTANT")
    .replaceAll(/, [\d.]+ m?s after it was due,/g, "") // said only where a run began late
    .replaceAll(/after [\d.]+ m?s\b/g, "after SPAN")
    .replaceAll(/[\d.]+ m?s after submission/g, "SPAN after submission");
  return lines.trimEnd().split("\n");
}

describe("programs in the docs", () => {
  it("exist", () => {
    expect(new Set(programs.map((block) => block.page))).toContain("README.md");
    expect(new Set(programs.map((block) => block.page))).toContain("docs/guides/embedding.md");
  });

  it("and policies have no type errors", async () => {
    const files = [...programs, ...policies].map((block) => block.file);
    const compilerOptions = {
      ...{ target: "es2023", lib: ["es2023", "esnext.disposable"], module: "nodenext", types: ["node"], noEmit: true },
      ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, skipLibCheck: true },
    };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const { code, stdout } = await run(join(ROOT, "node_modules/.bin/tsc"), ["-p", "."]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
  });

  it.each(programsToRun)("$page:$line runs, and prints what the page says", async ({ page, line, file }) => {
    const { code, stdout, stderr } = await run(process.execPath, [TSX, file], { PERDURE_DB: newSchema("docs").url });
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    const after = blocks.filter((block) => block.page === page && block.line > line);
    const said = after.find((block) => block.info === "text output" || block.info === "ts runnable");
    if (said?.info === "text output") expect(steady(stdout)).toEqual(steady(said.body));
  });
});

describe.runIf(IS_FULL)("queries in the docs", () => {
  it.each(queries)("$page:$line is accepted by a server", async ({ body }) => {
    const { url, schema } = newSchema("docs");
    await (await Perdure.open(url)).close();
    await ask(url, body.replaceAll(/\bperdure\b/g, schema));
  });
});

describe("policies in the docs", () => {
  it("are accepted as written", async () => {
    const lines = policies.map(({ file, page, line }) => {
      const place = JSON.stringify(`${page}:${line}`);
      return `try { resolvePolicy((await import("./${file}")).policy); } catch (e) { console.log(${place}, e.message); }`;
    });
    writeFileSync(join(project, "all.ts"), `import { resolvePolicy } from "perdure/core";\n${lines.join("\n")}\n`);
    const ended = await run(process.execPath, [TSX, "all.ts"]);
    expect(ended).toMatchObject({ code: 0, stdout: "" });
  });

  it("show every field that a policy may have", () => {
    const guide = policies.filter((block) => block.page === "docs/guides/retry-policies.md").map((block) => block.body);
    const missing = policyFields().filter((field) => !guide.some((body) => new RegExp(`\\b${field}:`).test(body)));
    expect(missing).toEqual([]);
  });
});

describe("playbooks in the docs", () => {
  it.each(playbooks)("$page:$line has no problems", ({ body }) => {
    expect((body.includes("apiVersion:") ? readText : readTest)(body).shown).toEqual([]);
  });
});

/** The error about an unknown field lists the known ones. */
function policyFields(): string[] {
  try {
    resolvePolicy({ "no such field": true } as never);
  } catch (error) {
    if (error instanceof ConfigError) return error.allowed.split(", ");
  }
  throw new Error("a policy with an unknown field was accepted");
}

describe("links in the docs", () => {
  it.each(PAGES)("of %s lead to an existing target", (page) => {
    const text = readFileSync(join(ROOT, page), "utf8").replaceAll(/^```.*?^```$/gms, "");
    const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)]
      .map((match) => match[1] as string)
      .filter((link) => !/^https?:/.test(link))
      .filter((link) => !leadsSomewhere(page, link));
    expect(broken).toEqual([]);
  });
});

function leadsSomewhere(page: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? join(ROOT, page) : join(ROOT, dirname(page), path);
  if (!existsSync(target)) return false;
  return anchor === undefined || anchorsOf(readFileSync(target, "utf8")).includes(anchor);
}

/** Anchors as GitHub derives them from headings. */
function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map((match) =>
    (match[1] as string)
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
