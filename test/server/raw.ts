/** Requests as bytes, for those that no client would send. */
import { type Agent, request } from "node:http";
import { connect } from "node:net";

/** Sends bytes, and gives all that comes back until the server closes the connection. */
export function exchange(port: number, bytes: string | readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let reply = "";
    socket.setEncoding("latin1");
    socket.on("data", (text) => {
      reply += String(text);
    });
    socket.on("error", (error) => (reply === "" ? reject(error) : resolve(reply)));
    socket.on("close", () => resolve(reply));
    for (const part of typeof bytes === "string" ? [bytes] : bytes) socket.write(part, "latin1");
  });
}

/** The status of the first reply, and how many there were. */
export function statusesOf(reply: string): number[] {
  return [...reply.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}

export interface Ask {
  readonly method: string;
  /** As it stands: nothing is made tidy. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The status of one request whose path is sent as it stands. */
export function statusOf(port: number, agent: Agent, { method, path, headers = {} }: Ask): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, method, path, headers, agent }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** Runs `task` on every item, with limited concurrency. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async () => {
    for (let i = next++; i < items.length; i = next++) await task(items[i] as T);
  };
  await Promise.all(Array.from({ length: width }, lane));
}
