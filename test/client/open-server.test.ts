/** `Perdure.open("http://…")`: the client with workers of this process. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { exec, type OpenOptions, Perdure, task } from "../../src/index.ts";
import { startServer, type TestServer } from "../server/kit.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

async function open(options: OpenOptions = {}): Promise<Perdure> {
  const perdure = await Perdure.open({ url: server.url, token: server.admin, ...options });
  onTestFinished(() => perdure.close({ grace: 0 }));
  return perdure;
}

const wait = task(
  "wait",
  (_: unknown, ctx) =>
    new Promise<void>((_resolve, reject) => {
      ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason));
    }),
);

describe("a worker for a server", () => {
  it("runs submitted jobs in its namespace, and is listed by the server", async () => {
    const perdure = await open({ namespace: "team" });
    const add = task("add", ({ a, b }: { a: number; b: number }) => a + b);
    const worker = await perdure.work([add], { concurrency: 3, name: "adder", labels: { zone: "a" } });
    const job = await perdure.submit(add, { a: 1, b: 2 }, { labels: { zone: "a" } });
    expect(await job.result()).toBe(3);
    const [row] = await perdure.workers();
    expect(row).toMatchObject({ id: worker.session, name: "adder", namespace: "team", slots: 3, endedAt: null });
    expect(await (await open()).workers()).toEqual([]);
    await worker.stop();
    expect((await perdure.workers())[0]?.endedAt).toEqual(expect.any(Number));
  });

  it("runs commands, whose files are read through the server, from any byte on", async () => {
    const perdure = await open();
    await perdure.work([exec]);
    const script = 'echo out; echo err >&2; mkdir artifacts/ü; echo deep > "artifacts/ü/a b#?%2e.txt"';
    const job = await perdure.submit(exec, { argv: ["sh", "-c", script] });
    const { outputs: left } = await job.result();
    const outputs = await perdure.outputs(job.id);
    expect(outputs.attempts).toEqual([1]);
    const { files, more } = await outputs.files(1);
    expect(files.map(({ name }) => name)).toEqual(["ü/a b#?%2e.txt"]);
    expect({ files, more }).toEqual({ files: left, more: 0 });
    expect(await outputs.files(9)).toEqual({ files: [], more: 0 });
    const read = async (name: string, offset?: number) => {
      const bytes = await outputs.read(1, name, offset);
      if (bytes === null) return null;
      const chunks: Uint8Array[] = [];
      for await (const chunk of bytes) chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    };
    expect(await read("stdout.log")).toBe("out\n");
    expect(await read("stderr.log", 1)).toBe("rr\n");
    expect(await read(`artifacts/${files[0]?.name}`)).toBe("deep\n");
    expect(await read("artifacts/none")).toBeNull();
    expect(await read("../stdout.log")).toBeNull();
    await expect(outputs.read(1, "stdout.log", -1)).rejects.toMatchObject({ path: "read.offset" });
  });

  it("is drained, and claims no more", async () => {
    const perdure = await open({ namespace: "drained" });
    const worker = await perdure.work([wait]);
    await perdure.drain(worker.session);
    expect((await perdure.workers())[0]?.drainingAt).toEqual(expect.any(Number));
  });

  it("is stopped with the client, and its jobs are released", async () => {
    const perdure = await Perdure.open({ url: server.url, token: server.admin, namespace: "closing" });
    const { session } = await perdure.work([wait]);
    const job = await perdure.submit(wait, null);
    for await (const { name } of job.events({ follow: true })) if (name === "attempt.started") break;
    const result = expect(job.result()).rejects.toMatchObject({ code: "closed" });
    await perdure.close({ grace: 0 });
    await result;
    await expect(perdure.work([wait])).rejects.toMatchObject({ code: "closed" });
    await expect(perdure.jobs()).rejects.toMatchObject({ code: "closed" });
    const other = await open({ namespace: "closing" });
    expect(await (await other.job(job.id)).get()).toMatchObject({ state: "queued", failures: 0 });
    expect((await other.workers()).find(({ id }) => id === session)?.endedAt).toEqual(expect.any(Number));
  });

  it("is refused with a wrong token, and for a task with a mistake in its policy", async () => {
    const wrong = await open({ token: "wrong" });
    await expect(wrong.work([wait])).rejects.toMatchObject({ code: "unauthorized" });
    const perdure = await open();
    const broken = task("broken", { retry: { maxAttempts: 0 } }, () => 1);
    await expect(perdure.work([broken])).rejects.toMatchObject({ path: "task broken: retry.maxAttempts" });
  });
});

describe("opening", () => {
  it("takes the token from the environment, and reports if there is none", async () => {
    const before = process.env.PERDURE_TOKEN;
    onTestFinished(() => {
      if (before === undefined) delete process.env.PERDURE_TOKEN;
      else process.env.PERDURE_TOKEN = before;
    });
    delete process.env.PERDURE_TOKEN;
    await expect(Perdure.open(server.url)).rejects.toThrow(/^open\.token: is missing; pass .* PERDURE_TOKEN/);
    process.env.PERDURE_TOKEN = server.admin;
    await using perdure = await Perdure.open(server.url);
    expect((await perdure.queues()).length).toBeGreaterThanOrEqual(0);
  });

  it.each(["schema", "connections", "artifacts", "retention", "keyWindow"] as const)(
    "refuses %s, which is the server's own",
    async (key) => {
      const value = { schema: "s", connections: 1, artifacts: "a", retention: {}, keyWindow: "1h" }[key];
      await expect(open({ [key]: value })).rejects.toMatchObject({ code: "invalid_config", path: `open.${key}` });
    },
  );
});
