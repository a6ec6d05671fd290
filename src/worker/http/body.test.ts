import { brotliCompressSync, constants, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, it, vi } from "vitest";
import { checkHttpInput } from "../../core/input/http-input.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { exchange } from "./exchange.ts";
import { serve, serveRaw } from "./testing-server.ts";

const MB = 1_000_000;

async function bodyFrom(url: string, parts: { maxBytes?: number; method?: string } = {}) {
  const { signal } = new AbortController();
  return exchange(checkHttpInput({ url, ...parts }, "input"), { allow: ["127.0.0.1"], clock: systemClock, signal });
}

/** A server that sends these bytes with this content-encoding. */
function packed(encoding: string, bytes: Buffer, status = 200) {
  return serve((response) => response.writeHead(status, { "content-encoding": encoding }).end(bytes));
}

describe("a body", () => {
  it.each([
    ["gzip", gzipSync("hello")],
    ["x-gzip", gzipSync("hello")],
    ["GZIP", gzipSync("hello")],
    ["deflate", deflateSync("hello")],
    ["br", brotliCompressSync("hello")],
    ["identity", Buffer.from("hello")],
    ["unheard-of", Buffer.from("hello")],
  ])("in %s is unpacked", async (encoding, bytes) => {
    await using server = await packed(encoding, bytes);
    const { bytes: read, isCut } = await bodyFrom(server.url);
    expect([read.toString(), isCut]).toEqual(["hello", false]);
  });

  it.each(["gzip", "br", "deflate"])("with the encoding %s and no bytes is empty", async (encoding) => {
    await using server = await packed(encoding, Buffer.alloc(0));
    for (const method of ["GET", "HEAD"]) {
      expect(await bodyFrom(server.url, { method })).toMatchObject({
        status: 200,
        bytes: Buffer.alloc(0),
        isCut: false,
      });
    }
  });

  it.each<[string, Buffer, string]>([
    ["gzip", gzipSync("hello").subarray(0, 20), "Z_BUF_ERROR"],
    ["gzip", Buffer.from("hello"), "Z_DATA_ERROR"],
  ])("that does not match its encoding is an error: %s", async (encoding, bytes, code) => {
    await using server = await packed(encoding, bytes);
    await expect(bodyFrom(server.url)).rejects.toMatchObject({ code });
  });

  it("is read to the last byte of its limit, and cut after it", async () => {
    await using server = await serve((response) => response.end("12345"));
    expect(await bodyFrom(server.url, { maxBytes: 5 })).toMatchObject({ bytes: Buffer.from("12345"), isCut: false });
    expect(await bodyFrom(server.url, { maxBytes: 4 })).toMatchObject({ bytes: Buffer.from("1234"), isCut: true });
    expect(await bodyFrom(server.url, { maxBytes: 0 })).toMatchObject({ bytes: Buffer.alloc(0), isCut: true });
  });

  it.each(["with its length", "in chunks"])("of 10 MB is cut at 1 MB: %s", async (how) => {
    await using server = await serve((response) => {
      if (how === "with its length") response.writeHead(200, { "content-length": 10 * MB });
      response.end(Buffer.alloc(10 * MB, "x"));
    });
    const { bytes, isCut } = await bodyFrom(server.url, { maxBytes: MB });
    expect([bytes.length, isCut]).toEqual([MB, true]);
  });

  it("without an end is cut off, and the connection closed", async () => {
    await using server = await serve((response) => {
      const more = () => {
        while (response.write(Buffer.alloc(65_536))) {}
      };
      response.on("drain", more);
      more();
    });
    expect(await bodyFrom(server.url)).toMatchObject({ isCut: true });
    await vi.waitFor(() => expect(server.open.size).toBe(0), { timeout: 60_000 });
  });

  it.each([
    ["gzip", gzipSync(Buffer.alloc(100 * MB))],
    ["br", brotliCompressSync(Buffer.alloc(100 * MB), { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } })],
  ])("that is a bomb in %s is cut before it is unpacked", async (encoding, bomb) => {
    await using server = await packed(encoding, bomb);
    const before = process.memoryUsage().arrayBuffers;
    const { bytes, isCut } = await bodyFrom(server.url, { maxBytes: MB });
    expect([bytes.length, isCut]).toEqual([MB, true]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(50 * MB);
  });

  it("that is compressed and expands to nothing is cut off too", async () => {
    const members = Buffer.concat(Array<Buffer>(20_000).fill(gzipSync("")));
    await using server = await packed("gzip", members);
    expect(members.length).toBeGreaterThan(100_000);
    expect(await bodyFrom(server.url, { maxBytes: 10 })).toMatchObject({ bytes: Buffer.alloc(0), isCut: true });
  });

  it.each([
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf",
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n",
  ])("whose end never came is an error: %j", async (text) => {
    await using server = await serveRaw((socket) => socket.end(text));
    await expect(bodyFrom(server.url)).rejects.toMatchObject({ code: "ECONNRESET" });
  });
});
