import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keeper, startAttempt } from "../../../test/http-worker/file-keeper.ts";
import { never, refusal } from "../../../test/http-worker/link-kit.ts";
import { untilAnswered } from "../http-link/link-parts.ts";
import { SentFile } from "./sent-file.ts";
import { UploadQueue } from "./upload-queue.ts";

describe("a file on its way", () => {
  it("resumes at the server's size, even if that has shrunk", async () => {
    const { kept, put } = keeper();
    const { attempt, files, dir, server } = await startAttempt(put);
    const path = join(dir, "stdout.log");
    const file = new SentFile(files, attempt, "stdout.log", path);
    await file.send({ isEnd: false }); // it does not exist yet
    writeFileSync(path, "first ");
    await file.send({ isEnd: false });
    await file.send({ isEnd: false }); // nothing new
    writeFileSync(path, "second ", { flag: "a" });
    kept.set("stdout.log", "fir"); // as after a server has lost the rest
    await file.send({ isEnd: true });
    expect(kept.get("stdout.log")).toBe("first second ");
    expect(server.asked.map(({ path: at }) => at.split("offset=")[1])).toEqual(["0", "6", "3"]);
    expect(server.asked[0]?.headers).toMatchObject({
      ...{ "perdure-lease": "t1", "perdure-session-key": "key_1", "content-type": "application/octet-stream" },
    });
  });

  it("that was interrupted resumes at the server's size", async () => {
    const { kept, put } = keeper();
    let calls = 0;
    const { attempt, files, dir, link } = await startAttempt((asked) => {
      calls += 1;
      const answer = put(asked);
      return calls < 4 ? "cut" : answer; // processed, but the reply is lost
    });
    writeFileSync(join(dir, "f"), "x".repeat(3_000_000));
    const file = new SentFile(files, attempt, "artifacts/f", join(dir, "f"));
    await untilAnswered(link.parts, () => file.send({ isEnd: true }), { signal: never() });
    expect(kept.get("artifacts/f")).toHaveLength(3_000_000);
  });

  it("is created at its end even if it is empty", async () => {
    const { kept, put } = keeper();
    const { attempt, files, dir } = await startAttempt(put);
    writeFileSync(join(dir, "f"), "");
    const file = new SentFile(files, attempt, "artifacts/f", join(dir, "f"));
    await file.send({ isEnd: false });
    expect(kept.has("artifacts/f")).toBe(false);
    await file.send({ isEnd: true });
    expect(kept.get("artifacts/f")).toBe("");
  });
});

describe("an outbox", () => {
  it("sends nothing more of an attempt that was lost", async () => {
    const { attempt, files, dir, server, said } = await startAttempt(() => refusal(409, "lease_lost"));
    for (const name of ["stdout.log", "stderr.log", "result.json"]) writeFileSync(join(dir, name), "x");
    await new UploadQueue(files, attempt, dir).finish();
    expect(server.asked).toHaveLength(1);
    expect(said).toEqual([]);
  });

  it("continues with the other files when one is refused", async () => {
    const { kept, put } = keeper();
    const { attempt, files, dir, said } = await startAttempt((asked) => {
      return asked.path.includes("stderr") ? refusal(400, "invalid_request") : put(asked);
    });
    for (const name of ["stdout.log", "stderr.log", "result.json"]) writeFileSync(join(dir, name), "x");
    await new UploadQueue(files, attempt, dir).finish();
    expect([...kept.keys()]).toEqual(["stdout.log", "result.json"]);
    expect(said).toEqual(["stderr.log was not kept: the server says invalid_request"]);
  });

  it("sends files and verdict while the attempt runs, as they stop changing, and takes back what was removed", async () => {
    const { kept, put } = keeper();
    const { attempt, files, dir } = await startAttempt(put);
    mkdirSync(join(dir, "artifacts/d"), { recursive: true });
    writeFileSync(join(dir, "artifacts/d/x"), "one");
    writeFileSync(join(dir, "artifacts/y"), "two");
    writeFileSync(join(dir, "result.json"), '{"status": "comp');
    const outbox = new UploadQueue(files, attempt, dir);
    outbox.follow();
    await expect
      .poll(() => Object.fromEntries(kept), { timeout: 30_000 })
      .toEqual({ "artifacts/d/x": "one", "artifacts/y": "two" });
    rmSync(join(dir, "artifacts/y"));
    writeFileSync(join(dir, "result.json"), '{"status": "completed"}');
    const now = { "artifacts/d/x": "one", "result.json": '{"status": "completed"}' };
    await expect.poll(() => Object.fromEntries(kept), { timeout: 30_000 }).toEqual(now);
    await outbox.finish();
    expect(Object.fromEntries(kept)).toEqual(now);
  });

  it("sends the verdict after all current artifacts, while the attempt is running and at its end", async () => {
    for (const isEnd of [false, true]) {
      const { kept, put } = keeper();
      const withVerdict: (string | undefined)[] = [];
      let changes = 3;
      const { attempt, files, dir } = await startAttempt((asked) => {
        if (asked.path.includes("result.json")) withVerdict.push(kept.get("artifacts/x"));
        else if (!isEnd && changes-- > 0) appendFileSync(join(dir, "artifacts/x"), "+"); // while it is sent
        return put(asked);
      });
      mkdirSync(join(dir, "artifacts"));
      writeFileSync(join(dir, "artifacts/x"), "x");
      writeFileSync(join(dir, "result.json"), '{"status": "completed"}');
      const outbox = new UploadQueue(files, attempt, dir);
      if (isEnd) await outbox.finish();
      else outbox.follow();
      await expect.poll(() => kept.get("result.json"), { timeout: 30_000 }).toBe('{"status": "completed"}');
      expect(withVerdict).toEqual([readFileSync(join(dir, "artifacts/x"), "utf8")]);
      await outbox.finish();
    }
  });

  it("keeps the verdict back where an artifact could not be sent", async () => {
    const { kept, put } = keeper();
    let refusals = 0;
    const { attempt, files, dir } = await startAttempt((asked) => {
      if (!asked.path.includes("artifacts/x")) return put(asked);
      refusals += 1;
      return refusal(413, "output_too_large");
    });
    mkdirSync(join(dir, "artifacts"));
    writeFileSync(join(dir, "artifacts/x"), "x");
    writeFileSync(join(dir, "result.json"), '{"status": "completed"}');
    const outbox = new UploadQueue(files, attempt, dir);
    outbox.follow();
    await expect.poll(() => refusals, { timeout: 30_000 }).toBeGreaterThan(0);
    writeFileSync(join(dir, "artifacts/y"), "y");
    await expect.poll(() => kept.get("artifacts/y"), { timeout: 30_000 }).toBe("y"); // two looks later
    expect(kept.has("result.json")).toBe(false);
    await outbox.finish();
    expect(kept.get("result.json")).toBe('{"status": "completed"}'); // its worker reports what is missing
  });
});
