/** Attempt directories with another owner. Changing the owner requires root. */
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import { openPlain } from "../../files/plain-files.ts";
import { chownDirectory, chownPrevious, closedTo, findUser, lookUp, removeAsOwner } from "./run-user.ts";

const IS_ROOT = process.geteuid?.() === 0;
const OTHER = { uid: 54_321, gid: 54_321, name: "other", home: null };

function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-run-user-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

function file(path: string, text = "x"): string {
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

const ownerOf = (path: string) => lstatSync(path).uid;

it("finds users by name and number, and none that does not exist", () => {
  expect(lookUp("root")).toMatchObject({ uid: 0, gid: 0, name: "root" });
  expect(lookUp("54321:54322")).toMatchObject({ uid: 54_321, gid: 54_322, home: null });
  for (const wrong of ["no-such-user-here", "54321", "", "-x", "a b", "root\nx"]) expect(lookUp(wrong)).toBeNull();
});

it.skipIf(IS_ROOT)("cannot change the user without root", () => {
  expect(() => findUser("root")).toThrow(/started as root/);
});

it("names the first directory that a user may not pass", () => {
  const dir = newDir(); // 0700
  mkdirSync(join(dir, "open"), { mode: 0o755 });
  const first = closedTo(OTHER, join(dir, "open"));
  expect(first === null ? null : dir.startsWith(first)).toBe(true);
  expect(closedTo({ uid: process.geteuid?.() ?? 0, gid: 0 }, join(dir, "open"))).toBeNull();
  expect(closedTo(OTHER, "/")).toBeNull();
});

describe.skipIf(!IS_ROOT)("a directory (changing the owner requires root)", () => {
  it("is given with all that is in it, links themselves and not what they lead to", async () => {
    const dir = newDir();
    const secret = file(join(newDir(), "secret"));
    mkdirSync(join(dir, "inputs"));
    file(join(dir, "inputs", "a"));
    symlinkSync(secret, join(dir, "link"));
    await chownDirectory(dir, OTHER);
    expect([dir, join(dir, "inputs", "a"), join(dir, "link")].map(ownerOf)).toEqual([54_321, 54_321, 54_321]);
    expect(ownerOf(secret)).toBe(0);
  });

  it("of an earlier attempt of the worker's own user is given too; one of another user is left as it is", async () => {
    const [own, others] = [newDir(), newDir()];
    const secret = file(join(newDir(), "secret"));
    for (const dir of [own, others]) {
      mkdirSync(join(dir, "artifacts"));
      file(join(dir, "artifacts", "saved"));
      linkSync(secret, join(dir, "hard"));
    }
    chownSync(others, 12_345, 12_345);
    await chownPrevious(own, OTHER);
    await chownPrevious(others, OTHER);
    expect([own, join(own, "artifacts", "saved")].map(ownerOf)).toEqual([54_321, 54_321]);
    expect([others, join(others, "artifacts", "saved")].map(ownerOf)).toEqual([12_345, 0]);
    expect(ownerOf(secret)).toBe(0);
  });

  it("does not lead to a file that only the worker may read", async () => {
    const [dir, elsewhere] = [newDir(), newDir()];
    const secret = file(join(elsewhere, "token"), "secret");
    symlinkSync(elsewhere, join(dir, "artifacts")); // as one that was swapped while we looked
    linkSync(secret, join(dir, "hard"));
    expect(await openPlain(join(dir, "artifacts", "token"), OTHER.uid)).toBeNull();
    expect(await openPlain(join(dir, "hard"), OTHER.uid)).toBeNull();
    chownSync(file(join(dir, "own")), OTHER.uid, OTHER.gid);
    const opened = await openPlain(join(dir, "own"), OTHER.uid);
    expect(opened).not.toBeNull();
    await opened?.close();
  });

  // How much is removed in a millisecond depends on the machine.
  it.runIf(IS_FULL)("is removed within a time limit, and by a later call", async () => {
    const parent = mkdtempSync("/tmp/perdure-run-user-"); // its user must be able to pass
    onTestFinished(() => rmSync(parent, { recursive: true, force: true }));
    chmodSync(parent, 0o711);
    const dir = join(parent, "attempt_1");
    mkdirSync(dir);
    for (let i = 0; i < 20_000; i++) file(join(dir, String(i)));
    await chownDirectory(dir, OTHER);
    expect(await removeAsOwner(parent, ["attempt_1"], 1)).toBe(false);
    expect(existsSync(dir)).toBe(true);
    expect(await removeAsOwner(parent, ["attempt_1"])).toBe(true);
    expect(existsSync(dir)).toBe(false);
  });

  it("is removed as its user, who can remove nothing else", async () => {
    const parent = newDir();
    const elsewhere = newDir();
    file(join(elsewhere, "kept"));
    const dir = join(parent, "attempt_1");
    mkdirSync(join(dir, "closed"), { recursive: true });
    file(join(dir, "closed", "f"));
    symlinkSync(elsewhere, join(dir, "link"));
    await chownDirectory(dir, OTHER);
    // It reports the directory on the path that it cannot enter.
    const isPassable = closedTo(OTHER, parent) === null;
    expect(await removeAsOwner(parent, ["attempt_1"])).toBe(isPassable);
    expect(existsSync(dir)).toBe(!isPassable);
    expect(existsSync(join(elsewhere, "kept"))).toBe(true);
  });
});
