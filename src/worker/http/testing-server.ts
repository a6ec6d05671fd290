/** For tests only: servers on loopback with free ports, closed at the end of the test. Nothing outside of tests imports this
 *  file. */
import * as http from "node:http";
import * as https from "node:https";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

export interface TestServer {
  readonly port: number;
  /** Without a trailing slash. */
  readonly url: string;
  readonly requests: readonly ReceivedRequest[];
  /** Sockets that are open now. */
  readonly open: ReadonlySet<Socket>;
  /** Connections so far. */
  readonly connections: number;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

type TestAnswer = (response: http.ServerResponse, request: ReceivedRequest) => void;

/** Reads each request to its end, records it, and lets `answer` reply. */
export async function serve(answer: TestAnswer, options: { host?: string; tls?: boolean } = {}): Promise<TestServer> {
  const requests: ReceivedRequest[] = [];
  const listener: http.RequestListener = async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url = "", headers } = request;
    const received = { method, url, headers, body: Buffer.concat(chunks).toString() };
    requests.push(received);
    answer(response, received);
  };
  const { host, tls = false } = options;
  const server = tls ? https.createServer({ key: KEY, cert: CERTIFICATE }, listener) : http.createServer(listener);
  return listen(server, requests, host);
}

/** Lets `talk` answer on the raw socket after the first data. */
export function serveRaw(talk: (socket: Socket) => void): Promise<TestServer> {
  return listen(
    createServer((socket) => socket.once("data", () => talk(socket))),
    [],
  );
}

async function listen(server: Server, requests: readonly ReceivedRequest[], host = "127.0.0.1"): Promise<TestServer> {
  const open = new Set<Socket>();
  let connections = 0;
  server.on("connection", (socket: Socket) => {
    connections += 1;
    open.add(socket);
    socket.on("error", () => {}); // tests include clients that hang up
    socket.on("close", () => open.delete(socket));
  });
  await new Promise<void>((done, failed) => server.on("error", failed).listen(0, host, done));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    requests,
    open,
    get connections() {
      return connections;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((done) => server.close(done));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  await using server = await serveRaw(() => {});
  return server.port;
}

/** Self-signed certificate of `tls.test`, valid until 2120. The key protects nothing. */
export const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBZzCCAQygAwIBAgIBATAKBggqhkjOPQQDAjAXMRUwEwYDVQQDDAxwZXJkdXJl
IHRlc3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBcxFTATBgNV
BAMMDHBlcmR1cmUgdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJRdbi9P
NKnmPq0QYkVltpPbKVUKOL0JZdMfeUzIoT17QWh7u9nwOGKcmNp5nQeB7Zune3fD
Gjhbl6IxJvRgOH2jRzBFMA8GA1UdEwEB/wQFMAMBAf8wEwYDVR0RBAwwCoIIdGxz
LnRlc3QwHQYDVR0OBBYEFOhcUybEn5VmCIRdu3SIL/vQ2aF3MAoGCCqGSM49BAMC
A0kAMEYCIQCaJYR5SHq4jeHLb4lz8LV00xEqzYdP5oUKqgeSx6SRJAIhAOq/RHjv
dcUmtlIde27mfm1kCIVg18Kl2vkeOKtagfAr
-----END CERTIFICATE-----`;

const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgeQ1uCZRGtvmRoSdh
5t6uUpxJSbst3EMQCwk3SxYy96WhRANCAASUXW4vTzSp5j6tEGJFZbaT2ylVCji9
CWXTH3lMyKE9e0Foe7vZ8DhinJjaeZ0Hge2bp3t3wxo4W5eiMSb0YDh9
-----END PRIVATE KEY-----`;
