/** Promises of the library's API besides its methods: one name for value and type, and the address alone chooses between
 *  server and embedded engine. */
import { describe, expect, it } from "vitest";
import type * as api from "../core/api.ts";
import { exec } from "../core/input/builtin.ts";
import { task } from "../core/task/task.ts";
import { openTestEngine } from "../testing/test-engine.ts";
import { Perdure } from "./perdure.ts";

describe("Perdure", () => {
  it("is one name for a value and a type, and the type is the API that a server has too", async () => {
    const perdure: Perdure = await Perdure.open(":memory:");
    const same: api.Perdure = perdure;
    await same.close();
  });

  it.each(["http://localhost:7373", "https://jobs.example.org"])("opens %s as a server's address", async (url) => {
    await using _perdure = await Perdure.open({ url, token: "t" });
    const wrong = Perdure.open({ url, token: "t", schema: "s" });
    await expect(wrong).rejects.toMatchObject({ code: "invalid_config", path: "open.schema" });
  });
});

describe("a kind by its name", () => {
  it.each([
    ["exec", { argv: "ls" }, /exec\.argv/],
    ["http", { url: "ftp://example.org" }, /http\.url/],
  ])("%s has its input checked at submit, as with the task", async (kind, input, message) => {
    await using kit = await openTestEngine();
    await expect(kit.perdure.submit(kind, input)).rejects.toThrow(message);
    const [answer] = await kit.perdure.submitMany([{ task: kind, input }]);
    expect(answer).toMatchObject({ ok: false, error: { code: "invalid_config" } });
  });
});

describe("runtimes of a worker", () => {
  it("are labels that jobs can require", async () => {
    await using kit = await openTestEngine();
    const k = task("k", () => "done");
    const job = await kit.perdure.submit(k, undefined, { labels: { "runtime/python": "yes" } });
    await using plain = await kit.perdure.work([k], { labels: { python: "yes" } });
    await kit.advance("1s");
    expect(await job.get()).toMatchObject({ state: "queued" });
    expect(plain.running).toBe(0);
    await kit.perdure.work([k], { runtimes: ["python"] });
    expect(await kit.runToEnd(job)).toMatchObject({ state: "succeeded" });
  });
});

describe("drain", () => {
  it("gives a worker no more jobs, and the list of workers shows it", async () => {
    await using kit = await openTestEngine();
    const k = task("k", () => "done");
    const worker = await kit.perdure.work([k]);
    await kit.perdure.drain(worker.session);
    const job = await kit.perdure.submit(k);
    await kit.advance("2s");
    expect(await job.get()).toMatchObject({ state: "queued", attempt: 0 });
    const [row] = await kit.perdure.workers();
    expect(row?.drainingAt).toBeTypeOf("number");
  });

  it("finds only workers in the same namespace", async () => {
    await using kit = await openTestEngine();
    await expect(kit.perdure.drain("ses_nobody")).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("outputs", () => {
  it("are read from any byte on, and reading from the end returns nothing", async () => {
    await using perdure = await Perdure.open(":memory:");
    await perdure.work([exec]);
    const job = await perdure.submit(exec, { argv: ["printf", "abcdef"] });
    await job.result();
    const { read } = await perdure.outputs(job.id);
    const text = async (offset?: number) => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of (await read(1, "stdout.log", offset)) ?? []) chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    };
    expect([await text(), await text(4), await text(6), await text(60)]).toEqual(["abcdef", "ef", "", ""]);
    expect(await read(1, "artifacts/none", 3)).toBeNull();
    await expect(read(1, "stdout.log", -1)).rejects.toMatchObject({ code: "invalid_config", path: "read.offset" });
  });
});
