import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../lib/system-clock.ts";
import { serverCalls } from "./http-call.ts";

/** Sends the beginning of a file, and never its end. */
async function stuckServer(): Promise<string> {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "application/octet-stream" });
    response.write("the beginning");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("the bytes of a reply", () => {
  it("end at once when the caller cancels them", async () => {
    const calls = serverCalls({ url: await stuckServer(), token: () => "", namespace: null, clock: systemClock });
    onTestFinished(() => calls.close());
    const given = new AbortController();
    const params = { session: "ses_1", id: "job_1", attempt: 1 };
    const bytes = calls.bytes("readEarlierOutput", { params, rest: "stdout.log", signal: given.signal });
    expect(String((await bytes.next()).value)).toBe("the beginning");
    const next = bytes.next();
    given.abort();
    await expect(next).rejects.toThrow("cancelled by the caller");
  });
});
