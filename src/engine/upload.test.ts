import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { idMaker } from "../lib/id.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";
import { openStore } from "../store/open.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { Engine } from "./engine.ts";

const HOUR = 3_600_000;
const DATA = { bytes: 4, sha256: "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7" };

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

async function bench() {
  const dir = mkdtempSync(join(tmpdir(), "perdure-upload-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const clock = new VirtualClock();
  const random = () => 0.5;
  const store = await openStore({ url: ":memory:", clock, random, newSecret: () => "x".repeat(32) });
  let drawn = 0;
  const newId = idMaker({ now: clock.now, randomBytes: (into) => into.fill(drawn++) });
  const blobs = directoryBlobs(dir);
  const retention = { succeeded: 0, failed: 0, cancelled: 0 };
  const engine = new Engine({ store, clock, random, newId, log: () => {}, name: "e", outputs: blobs, retention });
  onTestFinished(() => store.close());
  const uploaded = async (text: string) => {
    const id = engine.newUpload();
    await engine.writeUpload(id, 0, bytes(text));
    return id;
  };
  const submit = async (upload: string, key: string | null = null, stdinFile: object = DATA, command = "cat") => {
    const payload = JSON.stringify({ argv: [command], stdinFile });
    const [answer] = await engine.submit([{ kind: "exec", payload, policy: resolvePolicy(), key, upload }]);
    return answer?.status === "ok" ? answer : (answer?.error as Error);
  };
  return { clock, engine, blobs, uploaded, submit };
}

describe("an upload", () => {
  it("belongs to the job, and its id becomes the job's id", async () => {
    const { engine, uploaded, submit } = await bench();
    const id = await uploaded("data");
    expect(await engine.readUpload(id)).toEqual(DATA);
    expect(await submit(id)).toMatchObject({ id, created: true });
    await expect(engine.writeUpload(id, 0, bytes("else"))).rejects.toThrow(/no job was submitted with/);
    expect(await submit(id)).toMatchObject({ message: expect.stringContaining("no job was submitted with") });
    expect(await engine.readUpload(id)).toEqual(DATA);
  });

  it("must match the input", async () => {
    const { clock, engine, uploaded, submit } = await bench();
    const wrong = "its size or hash differs";
    expect(await submit(await uploaded("dat"))).toMatchObject({ message: expect.stringContaining(wrong) });
    expect(await submit(await uploaded("atad"))).toMatchObject({ message: expect.stringContaining(wrong) });
    expect(await submit(engine.newUpload())).toMatchObject({
      message: expect.stringContaining("the upload does not exist"),
    });
    expect(await submit("../../etc")).toMatchObject({ path: "submit.upload" });
    const old = await uploaded("data");
    clock.moveTo(clock.now() + HOUR / 2 + 1);
    expect(await submit(old)).toMatchObject({ message: expect.stringContaining("over half an hour old") });
    await expect(engine.writeUpload(old, 4, bytes("more"))).rejects.toThrow(/over half an hour old/);
  });

  it("is removed at once if a job already exists for the key", async () => {
    const { blobs, uploaded, submit } = await bench();
    const first = await uploaded("data");
    expect(await submit(first, "k")).toMatchObject({ id: first });
    expect(await submit(await uploaded("data"), "k")).toMatchObject({ id: first, created: false });
    const other = { bytes: 1, sha256: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" };
    expect(await submit(await uploaded("a"), "k", other)).toMatchObject({ code: "key_conflict" });
    expect(await blobs.inputs("", 10)).toEqual([first]);
  });

  it("stays with its job when the submit is repeated, at the same time or later: the key decides", async () => {
    const { engine, uploaded, submit } = await bench();
    const id = await uploaded("data");
    const both = await Promise.all([submit(id, "k"), submit(id, "k")]);
    expect(both).toMatchObject([{ id }, { id }]);
    expect(both.map((answer) => "created" in answer && answer.created).sort()).toEqual([false, true]); // either may be first
    expect(await engine.readUpload(id)).toEqual(DATA);
    expect(await submit(id, "k")).toMatchObject({ id, created: false });
    expect(await submit(id, "k", DATA, "wc")).toMatchObject({ code: "key_conflict" });
    expect(await submit(id, "other")).toMatchObject({ path: "submit.upload" });
    expect(await engine.readUpload(id)).toEqual(DATA);
  });

  it("that was removed does not matter if a job exists for the key", async () => {
    const { uploaded, submit } = await bench();
    const first = await uploaded("data");
    await submit(first, "k");
    const vain = await uploaded("data");
    for (const _reply of ["lost", "repeated"])
      expect(await submit(vain, "k")).toMatchObject({ id: first, created: false });
  });

  it("with an id from the future is refused, and removed", async () => {
    const { clock, engine, blobs, submit } = await bench();
    const future = "job_7zzzzzzzzzzzzzzzzzzzzzzzzz";
    await expect(engine.writeUpload(future, 0, bytes("data"))).rejects.toThrow(/in the future/);
    await blobs.write(future, 0, "stdin", 0, bytes("data"));
    expect(await submit(future)).toMatchObject({ message: expect.stringContaining("in the future") });
    await engine.prune();
    expect(await blobs.inputs("", 10)).toEqual([]);
    // The clock of the server that made it may be ahead of this one.
    const near = idMaker({ now: () => clock.now() + 60_000, randomBytes: (into) => into.fill(1) })("job");
    await engine.writeUpload(near, 0, bytes("data"));
    expect(await submit(near)).toMatchObject({ id: near });
  });

  it("of a job is not shown to another namespace", async () => {
    const { engine, uploaded, submit } = await bench();
    const id = await uploaded("data");
    await submit(id);
    expect(await engine.readUpload(id, "default")).toEqual(DATA);
    expect(await engine.readUpload(id, "other")).toBeNull();
  });

  it("is removed after an hour if no job was submitted with it, and with its job otherwise", async () => {
    const { clock, engine, blobs, uploaded, submit } = await bench();
    const kept = await uploaded("data");
    await submit(kept);
    const strays = [await uploaded("a"), await uploaded("b")];
    clock.moveTo(clock.now() + HOUR - 1);
    await engine.prune();
    expect(await blobs.inputs("", 10)).toEqual([kept, ...strays]);
    clock.moveTo(clock.now() + 2);
    await engine.prune();
    expect(await blobs.inputs("", 10)).toEqual([kept]);
    await engine.command(kept, { kind: "cancel" });
    clock.moveTo(clock.now() + 24 * HOUR);
    await engine.prune();
    expect(await blobs.inputs("", 10)).toEqual([]);
  });
});
