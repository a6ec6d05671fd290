import { once } from "node:events";
import { connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../lib/system-clock.ts";
import { HttpServer } from "./http-server.ts";

it("accepts a burst of connections before it starts their requests, and answers all that are still there", async () => {
  const count = 200;
  let accepted = 0;
  const acceptedAtStart: number[] = [];
  const paths = new Set<string | undefined>();
  const server = new HttpServer(
    {
      ...{ host: "127.0.0.1", port: 0, tls: null, allowHosts: [], insecure: false },
      ...{ maxConnections: 1_000, maxPerAddress: 1_000, headersMs: 60_000, writeMs: 60_000 },
    },
    { ...systemClock, monotonic: () => 0 }, // so that no request is started because it was held for long
    () => {},
    ({ url }, response) => {
      paths.add(url);
      acceptedAtStart.push(accepted);
      response.end();
    },
  );
  server.node.on("connection", () => {
    accepted += 1;
  });
  const { port } = await server.listen();
  onTestFinished(() => server.stop(0));
  const ask = (path: string) => {
    const socket = connect(port, "127.0.0.1");
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    return socket;
  };
  await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const socket = ask("/");
      // Leaves while its request is held.
      if (i === count / 4) {
        const left = ask("/left");
        left.once("connect", () => setImmediate(() => left.destroy()));
      }
      await once(socket, "data");
      socket.destroy();
    }),
  );
  expect([acceptedAtStart.length, [...paths]]).toEqual([count, ["/"]]);
  // The first few connections are not a burst yet. Without the hold each request is started before the next connection is accepted.
  expect(acceptedAtStart[5]).toBeGreaterThan(count / 2);
});
