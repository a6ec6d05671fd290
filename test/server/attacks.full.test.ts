/** Attacks on the built server at full size: connections without a token, and callers that take no replies. */
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, type ClientRequest, get } from "node:http";
import { get as getTls, Agent as TlsAgent } from "node:https";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { newHome, Proc, tokenIn } from "../e2e/kit.ts";
import { TEST_CERT, TEST_KEY } from "./tls.ts";

const IDLE = 2_000;
const ASKED = 45;

async function served(args: readonly string[] = [], env: Record<string, string> = {}, under: readonly string[] = []) {
  const home = newHome();
  const proc = new Proc(home, ["server", "--port", "0", "--json", "--data", join(home, "data"), ...args], env, under);
  const said = await proc.ready;
  const { port } = new URL(said.url);
  return { proc, port: Number(port), token: tokenIn(said), home };
}

/** Connections that send nothing, or what they are given, and never close their side. */
async function hold(port: number, count: number, bytes = "", isReading = true): Promise<Socket[]> {
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      socket.on("error", () => {});
      if (isReading) socket.resume();
      await Promise.race([once(socket, "connect"), once(socket, "close")]);
      if (bytes !== "") socket.write(bytes);
      return socket;
    }),
  );
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  return sockets;
}

function statusBy(asked: ClientRequest): Promise<number> {
  return new Promise((resolve) => {
    asked.setTimeout(20_000, () => asked.destroy());
    asked.on("error", () => resolve(0));
    asked.on("response", (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
      response.on("error", () => resolve(0));
    });
  });
}

/** One after the other, each over a new connection, during the attack. */
/** Each is repeated while the server answers that it is busy, as clients do: the machine may be. */
async function askAll(port: number, token: string, isTls = false): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < ASKED; i++) {
    const options = { host: "127.0.0.1", port, path: "/v1/queues", headers: { authorization: `Bearer ${token}` } };
    const ask = () =>
      isTls
        ? getTls({ ...options, ca: TEST_CERT, servername: "localhost", agent: new TlsAgent() })
        : get({ ...options, agent: new Agent() });
    let status = await statusBy(ask());
    for (let left = 20; status === 503 && left > 0; left--) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      status = await statusBy(ask());
    }
    statuses.push(status);
  }
  return statuses;
}

const allAnswered = Array<number>(ASKED).fill(200);

function openFilesOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

function residentMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024;
}

describe("without a token", { timeout: 300_000 }, () => {
  it("2,000 idle connections lock no client out, and SIGTERM ends the server with exit code 0", async () => {
    const { proc, port, token } = await served();
    await hold(port, IDLE);
    expect(await askAll(port, token)).toEqual(allAnswered);
    await new Promise((resolve) => setTimeout(resolve, 15_000)); // past the time for a first request
    await hold(port, IDLE);
    expect(await askAll(port, token)).toEqual(allAnswered);
    expect(await proc.stop()).toBe(0);
  });

  it("nor do they within TLS, and the descriptors of those that left are free again", async () => {
    const home = newHome();
    writeFileSync(join(home, "cert.pem"), TEST_CERT);
    writeFileSync(join(home, "key.pem"), TEST_KEY);
    const { proc, port, token } = await served([
      "--tls-cert",
      join(home, "cert.pem"),
      "--tls-key",
      join(home, "key.pem"),
    ]);
    const before = openFilesOf(proc.pid);
    const sockets = await hold(port, IDLE);
    expect(await askAll(port, token, true)).toEqual(allAnswered);
    for (const socket of sockets) socket.end();
    await expect.poll(() => openFilesOf(proc.pid)).toBeLessThan(before + 20);
    await hold(port, IDLE, "\x16\x03\x01\x02\x00\x01"); // a handshake that is never finished
    expect(await askAll(port, token, true)).toEqual(allAnswered);
    expect(await proc.stop()).toBe(0);
  });

  it("nor where there are fewer descriptors than connections allowed", async () => {
    const limit = 200; // to load the program takes nearly as many
    const under = ["prlimit", `--nofile=${limit}:${limit}`];
    const { proc, port, token } = await served(["--max-connections", "10000"], {}, under);
    await hold(port, IDLE);
    expect(await askAll(port, token)).toEqual(allAnswered);
    expect(openFilesOf(proc.pid)).toBeLessThan(limit);
    expect(proc.log).toContain("connections limited by open files");
    expect(proc.log.length).toBeLessThan(10_000);
    expect(await proc.stop()).toBe(0);
  });
});

describe("with a token for reading", { timeout: 300_000 }, () => {
  const HEAP = { NODE_OPTIONS: "--max-old-space-size=1024" };
  const LIST = "/v1/jobs?limit=1000";

  /** Enough for a list of about 20 MB. */
  async function fill(port: number, token: string): Promise<void> {
    const input = "x".repeat(900_000);
    for (let i = 0; i < 60; i++) {
      const response = await fetch(`http://127.0.0.1:${port}/v1/jobs`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ kind: "k", input, delay: "1d" }),
      });
      expect(response.status).toBe(201);
      await response.text();
    }
  }

  const asking = (token: string) => `GET ${LIST} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`;

  it("one pipelined burst of 24 KB costs little memory, whether its replies are read or not", async () => {
    const { proc, port, token } = await served([], HEAP);
    await fill(port, token);
    const before = residentMb(proc.pid);
    const request = asking(token);
    for (const count of [Math.floor(24_000 / request.length), 30]) {
      await hold(port, 1, request.repeat(count));
      await hold(port, 1, request.repeat(count), false);
    }
    let most = 0;
    for (let i = 0; i < 50; i++) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      most = Math.max(most, residentMb(proc.pid));
    }
    console.log(`burst: ${before.toFixed(0)} MB before, at most ${most.toFixed(0)} MB`);
    expect(await askAll(port, token)).toEqual(allAnswered);
    expect(most).toBeLessThan(before + 400);
    expect(await proc.stop()).toBe(0);
  });

  it("60 readers that never read cost little memory, and others are answered", async () => {
    const { proc, port, token } = await served([], HEAP);
    await fill(port, token);
    const before = residentMb(proc.pid);
    const created = await fetch(`http://127.0.0.1:${port}/v1/tokens`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "reader", scopes: ["read"], namespace: "default" }),
    });
    const { token: reader } = (await created.json()) as { token: string };
    await hold(port, 60, asking(reader), false);
    let most = 0;
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      most = Math.max(most, residentMb(proc.pid));
      expect(await askAll(port, token)).toEqual(allAnswered);
    }
    console.log(`readers: ${before.toFixed(0)} MB before, at most ${most.toFixed(0)} MB`);
    expect(most).toBeLessThan(before + 400);
    expect(await proc.stop()).toBe(0);
  });
});
