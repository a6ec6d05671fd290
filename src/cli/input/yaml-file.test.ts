import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { CliError } from "../exit.ts";
import { readYaml, readYamlBytes, readYamlDocuments, readYamlFile, textIn, yamlUsageError } from "./yaml-file.ts";

describe("a file", () => {
  const dir = mkdtempSync(join(tmpdir(), "perdure-yaml-"));
  afterAll(() => rmSync(dir, { recursive: true }));

  it("is read completely, missing, or refused as not text", () => {
    writeFileSync(join(dir, "a.yaml"), "\ufeffa: 1\n");
    writeFileSync(join(dir, "b.yaml"), Buffer.from([0x61, 0xff]));
    mkdirSync(join(dir, "c.yaml"));
    expect(readYamlFile(join(dir, "a.yaml"), "a.yaml")?.value).toEqual({ a: 1 });
    expect(readYamlFile(join(dir, "none.yaml"), "none.yaml")).toBeNull();
    expect(() => readYamlFile(join(dir, "b.yaml"), "b.yaml")).toThrow("b.yaml is not UTF-8 text");
    expect(() => readYamlFile(join(dir, "c.yaml"), "c.yaml")).toThrow("c.yaml is a directory; pass a file");
    expect(() => readYamlFile("/dev/zero", "zero")).toThrow("zero is a device; pass a file");
  });
});

describe("a mistake in YAML", () => {
  it.each([
    [() => readYaml("a: 1\na: 2", "f.yaml"), 'f.yaml:2:1: duplicate key "a"; keep one'],
    [
      () => readYaml("x".repeat(1_048_577), "f.yaml"),
      "f.yaml: over 1048576 bytes; split it, or store the data elsewhere",
    ],
    [() => readYamlDocuments("a: 1\n---\nb: *x\n", "f.yaml"), "f.yaml:3:4: *x has no &x before it"],
    [() => readYamlBytes(Buffer.from("a: b: c"), "stdin"), "stdin:1:4: a second colon in one line"],
    [() => textIn(Buffer.from([0xff]), "stdin"), "stdin is not UTF-8 text; save it as UTF-8"],
  ])("is a usage error with its position (case %#)", (read, message) => {
    const error = thrownBy(read);
    expect(error).toBeInstanceOf(CliError);
    expect((error as CliError).exitCode).toBe(2);
    expect((error as CliError).message).toContain(message);
  });

  it("that a later check finds is a usage error at the part", () => {
    const yaml = readYaml("jobs:\n  - kind: 7\n", "f.yaml");
    expect(yamlUsageError(yaml, ["jobs", 0, "kind"], "must be text").message).toBe("f.yaml:2:5: must be text");
    expect(yamlUsageError(yaml.part(["jobs", 0]), ["kind"], "x").exitCode).toBe(2);
  });
});

function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return null;
}
