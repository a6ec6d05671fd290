import { type AddressInfo, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { Ports } from "./ports.ts";

/** Listens there for a moment. */
async function listenOn(port: number, host: string): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, () => resolve());
  });
  expect((server.address() as AddressInfo).port).toBe(port);
  await new Promise((resolve) => server.close(resolve));
}

describe("ports", () => {
  it("are free, on the loopback and everywhere", async () => {
    const ports = new Ports();
    const taken = await ports.take(3);
    for (const port of taken) {
      await listenOn(port, "127.0.0.1");
      await listenOn(port, "0.0.0.0");
    }
  });

  it("are never assigned twice at the same time", async () => {
    const ports = new Ports();
    const all = (await Promise.all(Array.from({ length: 20 }, () => ports.take(20)))).flat();
    expect(new Set(all).size).toBe(400);
    expect(await ports.take(0)).toEqual([]);
    ports.giveBack(all);
    expect(await ports.take(20)).toHaveLength(20);
  });
});
