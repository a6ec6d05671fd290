/** The entry point `perdure/client` must run in a browser: no module that it loads may need Node, or a package. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const IMPORT = /^(?:import|export)\s+(?!type\b)([^"';]*?\sfrom\s+)?"([^"]+)";$/gm;

/** Every loaded module, with its imports. Types are removed before, also those in a list with values. */
function loaded(start: URL, found = new Map<string, string[]>()): Map<string, string[]> {
  const file = fileURLToPath(start);
  if (found.has(file)) return found;
  const text = readFileSync(file, "utf8");
  const targets = [...text.matchAll(IMPORT)].filter(([, names = ""]) => !isOnlyTypes(names)).map(([, , to = ""]) => to);
  found.set(file, targets);
  expect(text, file).not.toMatch(/\bimport\(|\brequire\(/);
  for (const target of targets) if (target.startsWith(".")) loaded(new URL(target, start), found);
  return found;
}

function isOnlyTypes(names: string): boolean {
  const list = /\{([^}]*)\}/
    .exec(names)?.[1]
    ?.split(",")
    .map((name) => name.trim());
  return list?.every((name) => name === "" || name.startsWith("type ")) ?? false;
}

it("the client loads files of core, contract, wire and lib only, and no package, parser or part of Node", () => {
  const modules = loaded(new URL("../../src/client/index.ts", import.meta.url));
  const outside = [...modules.values()].flat().filter((target) => !target.startsWith("."));
  expect(outside).toEqual([]);
  const folders = new Set([...modules.keys()].map((file) => /src[/\\](\w+)[/\\]/.exec(file)?.[1]));
  expect([...folders].sort()).toEqual(["client", "contract", "core", "lib", "wire"]);
  expect([...modules.keys()].filter((file) => /expression|jinja|schemas|operations/.test(file))).toEqual([]);
  const code = [...modules.keys()].map((file) =>
    readFileSync(file, "utf8").replaceAll(/\/\*[\s\S]*?\*\/|\/\/ .*$/gm, ""),
  );
  for (const text of code) expect(text).not.toMatch(/\bBuffer\.|\bprocess\.|\bsetImmediate\b/);
});

it("the client can be loaded, and `work()` reports how jobs are run", async () => {
  const { Perdure, task } = await import("../../src/client/index.ts");
  await using perdure = await Perdure.connect("http://127.0.0.1:9", { token: "t" });
  await expect(perdure.work([task("t", () => 1)])).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringContaining("perdure/worker"),
  });
});
