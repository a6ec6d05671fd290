import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { Assets } from "./assets.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const never = new AbortController().signal;

/** Content by hash, and the hashes that were fetched. */
function stored(...texts: readonly string[]) {
  const byHash = new Map(texts.map((text) => [sha256(text), Buffer.from(text)]));
  const fetched: string[] = [];
  const link = {
    async asset(hash: string) {
      fetched.push(hash);
      return byHash.get(hash) ?? null;
    },
  };
  return { link, fetched, byHash };
}

describe("assets of a worker", () => {
  it("are fetched once, also by attempts that start together", async () => {
    const { link, fetched } = stored("print(1)");
    const assets = new Assets(link);
    const hash = sha256("print(1)");
    const found = await Promise.all([assets.get(hash, never), assets.get(hash, never)]);
    found.push(await assets.get(hash, never));
    expect(found.map(String)).toEqual(Array(3).fill("print(1)"));
    expect(fetched).toEqual([hash]);
  });

  it("are kept up to a limit: the least recently used is dropped, and one above it is not kept", async () => {
    const texts = ["aaaa", "bbbb", "cccc", "longer than the limit"];
    const { link, fetched } = stored(...texts);
    const assets = new Assets(link, 10);
    const [a, b, c, long] = texts.map(sha256) as [string, string, string, string];
    for (const hash of [a, b, a, c, a, b, long, long, a]) await assets.get(hash, never);
    expect(fetched).toEqual([a, b, c, b, long, long]);
  });

  it("that do not exist, or are not what their hash promises, are refused, and fetched again later", async () => {
    const { link, byHash } = stored();
    const assets = new Assets(link);
    const hash = sha256("x");
    await expect(assets.get(hash, never)).rejects.toMatchObject({ code: "asset_missing" });
    byHash.set(hash, Buffer.from("y"));
    await expect(assets.get(hash, never)).rejects.toThrow(/not received intact/);
    byHash.set(hash, Buffer.from("x"));
    expect(String(await assets.get(hash, never))).toBe("x");
    await expect(new Assets({}).get(hash, never)).rejects.toMatchObject({ code: "asset_missing" });
  });

  it("of an attempt that is stopped are not waited for; another one still gets them", async () => {
    let answer: (bytes: Uint8Array) => void = () => {};
    const assets = new Assets({ asset: () => new Promise<Uint8Array>((resolve) => (answer = resolve)) });
    const stop = new AbortController();
    const stopped = assets.get(sha256("x"), stop.signal);
    const other = assets.get(sha256("x"), never);
    stop.abort();
    await expect(stopped).rejects.toThrow(/stopped/);
    answer(Buffer.from("x"));
    expect(String(await other)).toBe("x");
  });
});
