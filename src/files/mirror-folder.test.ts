/** The folder of copies, with files and links of others in its way. */
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { MirrorFolder, type MirrorOptions } from "./mirror-folder.ts";

const OPTIONS: MirrorOptions = {
  folders: ["a", "logs/pool"],
  mark: { name: ".mark", text: "a copy\n" },
  lock: async () => () => {},
};

function newPlace(): string {
  const place = realpathSync(mkdtempSync(join(tmpdir(), "perdure-mirror-")));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  return place;
}

async function opened(options: Partial<MirrorOptions> = {}) {
  const place = newPlace();
  const path = join(place, "copy");
  const outside = join(place, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "kept"), "theirs");
  const folder = await MirrorFolder.open(path, { ...OPTIONS, ...options });
  return { path, outside, folder };
}

async function namesIn(folder: MirrorFolder, path: readonly string[]): Promise<string[]> {
  const names: string[] = [];
  for await (const name of folder.names(path)) names.push(name);
  return names.sort();
}

describe("a folder of copies", () => {
  it("is created private, with its folders, and is recognized again", async () => {
    const { path, folder } = await opened();
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(readdirSync(path).sort()).toEqual([".mark", ".parts", "a", "logs"]);
    expect(await folder.isWhole()).toBe(true);
    await folder.write(["a", "x.json"], "one");
    folder.close();
    const again = await MirrorFolder.open(path, OPTIONS);
    await again.write(["a", "x.json"], "two", { modifiedAt: 1_738_750_141_295 });
    expect(readFileSync(join(path, "a/x.json"), "utf8")).toBe("two");
    expect(statSync(join(path, "a/x.json")).mode & 0o777).toBe(0o600);
    expect(await again.modifiedAt(["a", "x.json"])).toBe(1_738_750_141_295);
    expect(await namesIn(again, ["a"])).toEqual(["x.json"]);
    await again.remove(["a", "x.json"]);
    await again.remove(["a", "x.json"]);
    expect(await namesIn(again, ["a"])).toEqual([]);
    expect(await namesIn(again, ["none", "at", "all"])).toEqual([]);
  });

  it("writes files atomically: an interrupted write leaves the previous file", async () => {
    const { path, folder } = await opened();
    await folder.write(["a", "x"], "before");
    async function* breaking() {
      yield Buffer.from("half");
      throw new Error("broken off");
    }
    await expect(folder.write(["a", "x"], breaking())).rejects.toThrow("broken off");
    const cut = AbortSignal.abort(new Error("cut"));
    await expect(folder.write(["a", "x"], breaking(), { signal: cut })).rejects.toThrow("cut");
    expect(readFileSync(join(path, "a/x"), "utf8")).toBe("before");
    expect(readdirSync(join(path, ".parts"))).toEqual([]);
    await expect(folder.write(["a", "x"], breaking(), { size: 2 ** 60 })).rejects.toMatchObject({
      ...{
        code: "low_space",
        message: expect.stringMatching(/, and (256 MiB|\d+ bytes \(5 % of the disk\)) must stay free$/),
      },
    });
  });

  it("appends whole lines, and keeps one older file", async () => {
    const { path, folder } = await opened();
    for (const line of ["1\n", "2\n", "3\n"])
      await folder.append(["logs", "pool", "x"], line, 4, ["logs", "pool", "y"]);
    expect([readFileSync(join(path, "logs/pool/y"), "utf8"), readFileSync(join(path, "logs/pool/x"), "utf8")]).toEqual([
      ...["1\n2\n", "3\n"],
    ]);
  });

  it("created again after it was deleted, wholly or in part, reports missing files", async () => {
    const { path, folder } = await opened();
    rmSync(path, { recursive: true });
    expect(await folder.isWhole()).toBe(false);
    expect(await folder.isWhole()).toBe(true);
    rmSync(join(path, "logs"), { recursive: true });
    expect(await folder.isWhole()).toBe(false);
    expect(readdirSync(path).sort()).toEqual([".mark", ".parts", "a", "logs"]);
    await folder.write(["a", "deep", "er", "x"], "made on the way");
    expect(existsSync(join(path, "a/deep/er/x"))).toBe(true);
  });

  it.each([
    ["a link", (path: string, to: string) => symlinkSync(to, path)],
    ["a file", writeFileSync],
  ])("writes, appends and removes nothing through %s in place of a folder", async (_what, plant) => {
    const { path, outside, folder } = await opened();
    plant(join(path, "a", "job"), outside);
    await expect(folder.write(["a", "job", "x"], "ours")).rejects.toThrow(
      /a\/job is a .* instead of a directory; remove it/,
    );
    await expect(folder.append(["a", "job", "x"], "ours", 9, ["a", "y"])).rejects.toThrow("remove it");
    await expect(folder.makeFolder(["a", "job", "x"])).rejects.toThrow("remove it");
    await expect(folder.remove(["a", "job", "kept"])).rejects.toThrow("remove it");
    await expect(folder.modifiedAt(["a", "job", "kept"])).rejects.toThrow("remove it");
    await expect(namesIn(folder, ["a", "job"])).rejects.toThrow("remove it");
    expect(readdirSync(outside)).toEqual(["kept"]);
    await folder.remove(["a", "job"]); // only the link
    expect(readFileSync(join(outside, "kept"), "utf8")).toBe("theirs");
    await folder.write(["a", "job", "x"], "ours");
  });

  it("replaces a link in place of a file, and never appends to one", async () => {
    const { path, outside, folder } = await opened();
    symlinkSync(join(outside, "kept"), join(path, "a/x"));
    await folder.write(["a", "x"], "ours");
    expect(lstatSync(join(path, "a/x")).isFile()).toBe(true);
    symlinkSync(join(outside, "kept"), join(path, "logs/pool/x"));
    await expect(folder.append(["logs", "pool", "x"], "ours", 99, ["a", "y"])).rejects.toThrow("ELOOP");
    linkSync(join(outside, "kept"), join(path, "logs/pool/y"));
    await expect(folder.append(["logs", "pool", "y"], "ours", 99, ["a", "y"])).rejects.toThrow("remove it");
    expect(readFileSync(join(outside, "kept"), "utf8")).toBe("theirs");
  });

  it.each(["", ".", "..", "a/b", "a\0b"])("rejects the name %j", async (name) => {
    const { folder } = await opened();
    await expect(folder.write(["a", name], "x")).rejects.toThrow("is not a valid file name");
    await expect(folder.remove([name, "x"])).rejects.toThrow("is not a valid file name");
    await expect(folder.remove(["a", name])).rejects.toThrow("is not a valid file name");
  });
});

describe("a folder whose removal was cut short", () => {
  it("is accepted with only our own names in it, and marked again; without its mark nothing is created in it", async () => {
    const { path, folder } = await opened();
    rmSync(join(path, ".mark"));
    rmSync(join(path, "a"), { recursive: true });
    await expect(folder.write(["a", "x"], "ours")).rejects.toThrow("was deleted");
    expect(readdirSync(path).sort()).toEqual([".parts", "logs"]); // the removal is not disturbed
    expect(await folder.isWhole()).toBe(false);
    folder.close();
    rmSync(join(path, ".mark"));
    writeFileSync(join(path, ".lock"), "");
    await MirrorFolder.open(path, OPTIONS);
    expect(readdirSync(path).sort()).toEqual([".lock", ".mark", ".parts", "a", "logs"]);
  });

  it.each([
    ["logs/theirs", (path: string) => mkdirSync(join(path, "logs/theirs"), { recursive: true })],
    ["a", (path: string) => symlinkSync(tmpdir(), join(path, "a"))],
    ["theirs", (path: string) => writeFileSync(join(path, "theirs"), "")],
  ])("is refused with the foreign file %s in it", async (name, plant) => {
    const path = newPlace();
    chmodSync(path, 0o700);
    mkdirSync(join(path, ".parts"));
    plant(path);
    const problem = `${path} has files that this server did not write, such as "${name}"; move them away`;
    await expect(MirrorFolder.open(path, OPTIONS)).rejects.toThrow(problem);
    expect(existsSync(join(path, ".mark"))).toBe(false);
  });

  it("stays refused while another server holds it, however often it is tried", async () => {
    let isFree = true;
    const { path, folder } = await opened({ lock: async () => (isFree ? () => {} : null) });
    isFree = false;
    rmSync(join(path, ".mark"));
    await expect(folder.isWhole()).rejects.toThrow("in use by another server");
    await expect(folder.isWhole()).rejects.toThrow("in use by another server");
  });
});

describe("a folder that cannot be used", () => {
  const refusal = (path: string, options: Partial<MirrorOptions> = {}) =>
    MirrorFolder.open(path, { ...OPTIONS, ...options }).then(
      () => "opened",
      (error: Error) => error.message,
    );

  it("is refused with advice: a file, a link, foreign files, no parent folder", async () => {
    const place = newPlace();
    writeFileSync(join(place, "file"), "");
    symlinkSync(place, join(place, "link"));
    mkdirSync(join(place, "theirs/apps"), { recursive: true });
    expect(await refusal(join(place, "file"))).toMatch(/is a file, not a directory; choose a directory/);
    expect(await refusal(join(place, "link"))).toMatch(/is a symbolic link, not a directory; choose a directory/);
    expect(await refusal(join(place, "theirs"))).toMatch(
      /has files that this server did not write, such as "apps"; .*choose an empty or new directory/,
    );
    expect(readdirSync(join(place, "theirs"))).toEqual(["apps"]);
    expect(await refusal(join(place, "none/at/all"))).toMatch(/none\/at does not exist; create it first/);
    expect(await refusal("/proc/perdure-copy")).toMatch(/cannot be created \(E\w+\); choose another directory/);
  });

  it("is refused if others may write to it, another user owns it, or another server holds it", async () => {
    const place = newPlace();
    const path = join(place, "open");
    mkdirSync(path);
    chmodSync(path, 0o777);
    expect(await refusal(path)).toBe(`other users may write to ${path}; run chmod go-w ${path}`);
    chmodSync(path, 0o755);
    expect(await refusal(path, { lock: async () => null })).toMatch(/in use by another server; stop that server first/);
    expect(await refusal(path)).toBe("opened");
    let holders = 0;
    const lock = async () => (holders++ === 0 ? () => {} : null);
    const both = await Promise.all([refusal(join(place, "new"), { lock }), refusal(join(place, "new"), { lock })]);
    expect(both.sort()).toEqual([expect.stringMatching(/in use by another server/), "opened"]); // opened at once
    if (process.getuid?.() !== 0) return; // only root can give a directory away
    chownSync(path, 65_534, 65_534);
    expect(await refusal(path)).toMatch(/belongs to the user with the id 65534, and this process runs as 0/);
  });
});
