import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { idMaker } from "../lib/id.ts";
import { directoryBlobs } from "./directory-blobs.ts";

const newId = idMaker({ now: () => 1_000, randomBytes: (bytes) => bytes.fill(7) });

function open() {
  const root = join(mkdtempSync(join(tmpdir(), "perdure-blobs-")), "artifacts");
  onTestFinished(() => rmSync(join(root, ".."), { recursive: true, force: true }));
  return { root, blobs: directoryBlobs(root), job: newId("job") };
}

async function text(stream: Readable | null): Promise<string | null> {
  if (stream === null) return null;
  let all = "";
  for await (const chunk of stream) all += String(chunk);
  return all;
}

const mode = (path: string) => statSync(path).mode & 0o777;

describe("the directory of an attempt", () => {
  it("is private, and refers to the previous one", async () => {
    const { root, blobs, job } = open();
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    const first = await blobs.begin(job, 1, false);
    expect(first).toEqual({ dir: join(root, job, "attempt_1"), previous: null });
    for (const path of [root, join(root, job), first.dir, join(first.dir, "artifacts")]) expect(mode(path)).toBe(0o700);
    expect(readdirSync(first.dir)).toEqual(["artifacts"]);
    expect((await blobs.begin(job, 4, false)).previous).toBe(first.dir); // two attempts never created theirs
    expect((await blobs.begin(job, 12, false)).previous).toBe(join(root, job, "attempt_4")); // by number, not by name
    expect(await blobs.attempts(job)).toEqual([1, 4, 12]);
    expect(await blobs.attempts(newId("job"))).toEqual([]);
  });

  it("is never overwritten, even when attempt numbers repeat", async () => {
    const { root, blobs, job } = open();
    for (const word of ["first", "second", "third"]) {
      const { dir } = await blobs.begin(job, 1, false);
      expect(readdirSync(dir)).toEqual(["artifacts"]);
      writeFileSync(join(dir, "stdout.log"), word);
    }
    const kept = readdirSync(join(root, job)).map((name) => readFileSync(join(root, job, name, "stdout.log"), "utf8"));
    expect(kept.sort()).toEqual(["first", "second", "third"]);
    expect(await blobs.attempts(job)).toEqual([1]);
  });

  it("loses only its scratch files with tidy; with keep nothing", async () => {
    const { blobs, job } = open();
    for (const keep of [false, true]) {
      const id = keep ? newId("job") : job;
      const { dir } = await blobs.begin(id, 1, keep);
      for (const name of ["result.json", "stdout.log", "stderr.log", "usage.json", "scratch", ".hidden"]) {
        writeFileSync(join(dir, name), "x");
      }
      mkdirSync(join(dir, "node_modules/deep/down"), { recursive: true });
      writeFileSync(join(dir, "artifacts/result.txt"), "x");
      await blobs.tidy(id);
      const left = readdirSync(dir).sort();
      if (keep) expect(left).toContain("scratch");
      else expect(left).toEqual(["artifacts", "result.json", "stderr.log", "stdout.log"]);
      expect(readdirSync(join(dir, "artifacts"))).toEqual(["result.txt"]);
    }
    await blobs.tidy(newId("job")); // does not exist
  });

  it("is deleted with its job", async () => {
    const { root, blobs, job } = open();
    const other = newId("job");
    const { dir } = await blobs.begin(job, 1, true);
    execFileSync("sh", ["-c", "mkdir -p a/b; echo 1 > a/b/c; chmod 0 a/b a"], { cwd: dir });
    await blobs.begin(other, 1, false);
    await blobs.delete([job, newId("job")]);
    expect(existsSync(join(root, job))).toBe(false);
    expect(readdirSync(root)).toEqual([other]);
  });

  it("is deleted even if the command made it unreadable for its own user", async () => {
    if (process.getuid?.() === 0) {
      process.seteuid?.(65_534); // root can read everything
      onTestFinished(() => void process.seteuid?.(0));
    }
    const { root, blobs, job } = open();
    const { dir } = await blobs.begin(job, 1, false);
    // Not by a shell: it would run as root again.
    for (const folder of ["s", "s/b", "artifacts/x"]) mkdirSync(join(dir, folder));
    for (const file of ["s/b/c", "artifacts/x/y"]) writeFileSync(join(dir, file), "1");
    for (const folder of ["s/b", "s", "artifacts/x"]) chmodSync(join(dir, folder), 0);
    const { files, more } = await blobs.list(job, 1);
    expect([files, more]).toEqual([[], 1]);
    await blobs.tidy(job);
    expect(readdirSync(dir)).toEqual(["artifacts"]);
    await blobs.delete([job]);
    expect(existsSync(join(root, job))).toBe(false);
  });

  it("is never created, listed or removed for an invalid job id", async () => {
    const { root, blobs } = open();
    for (const id of ["..", "", "../x", "job_1/..", "run_01h455vb4pex5vsknk084sn02q", "job_\0"]) {
      await expect(blobs.begin(id, 1, false)).rejects.toThrow("not a job id");
      await expect(blobs.delete([id])).rejects.toThrow("not a job id");
      await expect(blobs.get(id, 1, "stdout.log")).rejects.toThrow("not a job id");
    }
    expect(existsSync(root)).toBe(false);
  });
});

describe("files of an attempt", () => {
  it("are listed with name, size, media type and hash, including folders", async () => {
    const { blobs, job } = open();
    const { dir } = await blobs.begin(job, 1, false);
    const at = join(dir, "artifacts");
    mkdirSync(join(at, "sub/deep"), { recursive: true });
    writeFileSync(join(at, "b.png"), "png");
    writeFileSync(join(at, "a.json"), "{}");
    writeFileSync(join(at, "sub/deep/c"), "");
    const sha256 = (bytes: string) => createHash("sha256").update(bytes).digest("hex");
    expect(await blobs.list(job, 1)).toEqual({
      more: 0,
      files: [
        { name: "a.json", size: 2, mime: "application/json", sha256: sha256("{}") },
        { name: "b.png", size: 3, mime: "image/png", sha256: sha256("png") },
        { name: "sub/deep/c", size: 0, mime: "application/octet-stream", sha256: sha256("") },
      ],
    });
    expect(await blobs.list(job, 2)).toEqual({ files: [], more: 0 });
    expect(await text(await blobs.get(job, 1, "artifacts/a.json"))).toBe("{}");
    expect(await text(await blobs.get(job, 1, "artifacts/sub/deep/c"))).toBe("");
  });

  it("may have unusual names, which stay names", async () => {
    const { blobs, job } = open();
    const { dir } = await blobs.begin(job, 1, false);
    const names = ["..\\..\\evil", "C:x", "-rf", "a\nb", "\x1b[2J", "…", "x".repeat(255), "．．", " ", "é", "E\u0301"];
    for (const name of names) writeFileSync(join(dir, "artifacts", name), name);
    execFileSync("perl", ["-e", 'open F, ">", "\\xff\\xfe"'], { cwd: join(dir, "artifacts") }); // not UTF-8
    const { files, more } = await blobs.list(job, 1);
    expect(files.map(({ name }) => name).sort()).toEqual([...names].sort());
    expect(more).toBe(1);
    for (const name of names) expect(await text(await blobs.get(job, 1, `artifacts/${name}`))).toBe(name);
  });

  it("are counted, not listed, beyond a thousand, or if they are not regular files", async () => {
    const { blobs, job } = open();
    const { dir } = await blobs.begin(job, 1, false);
    const at = join(dir, "artifacts");
    for (let i = 0; i < 1_005; i++) writeFileSync(join(at, `f${i}`), "");
    execFileSync("mkfifo", [join(at, "0pipe")]);
    const { files, more } = await blobs.list(job, 1);
    expect([files.length, more]).toEqual([1_000, 6]);
  });

  it("are read only from inside the directory", async () => {
    const { root, blobs, job } = open();
    const { dir } = await blobs.begin(job, 1, false);
    writeFileSync(join(root, "secret"), "secret");
    for (const name of ["stdout.log", "scratch", "usage.json"]) writeFileSync(join(dir, name), "out");
    const other = newId("job");
    await blobs.begin(other, 1, false);
    const outside = ["../../secret", "../../../x", join(root, "secret"), "artifacts/../../../secret", `../../${other}`];
    const inside = ["", ".", "..", "artifacts", "artifacts/", "stdout.log\0", "none", "scratch", "usage.json"];
    for (const name of [...outside, ...inside, "../attempt_10/x"]) {
      expect(await blobs.get(job, 1, name), name).toBe(null);
    }
    expect(await text(await blobs.get(job, 1, "stdout.log"))).toBe("out");
    linkSync(join(dir, "stdout.log"), join(dir, "artifacts/hard"));
    expect(await text(await blobs.get(job, 1, "artifacts/hard"))).toBe("out");
    symlinkSync("../stdout.log", join(dir, "artifacts/soft"));
    expect(await blobs.get(job, 1, "artifacts/soft")).toBe(null);
  });
});

describe("a write", () => {
  const one = async function* (word = "x") {
    yield Buffer.from(word);
  };
  const taken = { code: "invalid_config", path: "name" };

  it("follows no link, in place of the file or of a folder, and writes only to regular files", async () => {
    const { root, blobs, job } = open();
    const { dir } = await blobs.begin(job, 1, false);
    const outside = join(root, "..", "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "file"), "kept");
    symlinkSync(join(outside, "file"), join(dir, "stdout.log"));
    symlinkSync(join(outside, "new"), join(dir, "stderr.log"));
    linkSync(join(outside, "file"), join(dir, "result.json"));
    symlinkSync(outside, join(dir, "artifacts/linked"));
    execFileSync("mkfifo", [join(dir, "artifacts/pipe")]);
    mkdirSync(join(dir, "artifacts/folder"));
    const names = ["stdout.log", "stderr.log", "result.json", "artifacts/linked", "artifacts/linked/file"];
    for (const name of [...names, "artifacts/pipe", "artifacts/folder"]) {
      await expect(blobs.write(job, 1, name, 0, one()), name).rejects.toMatchObject(taken);
    }
    expect(await blobs.write(job, 1, "artifacts/linked/file", 2, one())).toEqual({ size: 0 });
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("kept");
    expect(readdirSync(outside)).toEqual(["file"]);
  });

  it("into a job or an attempt that is a link is refused", async () => {
    const { root, blobs, job } = open();
    const outside = join(root, "..", "outside");
    mkdirSync(outside);
    mkdirSync(root);
    symlinkSync(outside, join(root, job));
    await expect(blobs.write(job, 1, "stdout.log", 0, one())).rejects.toMatchObject(taken);
    const other = newId("job");
    mkdirSync(join(root, other));
    symlinkSync(outside, join(root, other, "attempt_1"));
    await expect(blobs.write(other, 1, "stdout.log", 0, one())).rejects.toMatchObject(taken);
    expect(readdirSync(outside)).toEqual([]);
  });

  it("creates private files and folders, and appends to what the attempt wrote itself", async () => {
    const { root, blobs, job } = open();
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    await blobs.write(job, 1, "artifacts/a/b", 0, one("abc"));
    const dir = join(root, job, "attempt_1");
    for (const path of [root, join(root, job), dir, join(dir, "artifacts"), join(dir, "artifacts/a")]) {
      expect(mode(path)).toBe(0o700);
    }
    expect(mode(join(dir, "artifacts/a/b"))).toBe(0o600);
    writeFileSync(join(dir, "stdout.log"), "written");
    await blobs.write(job, 1, "stdout.log", 7, one(" and sent"));
    expect(await text(await blobs.get(job, 1, "stdout.log", 3))).toBe("tten and sent");
  });
});
