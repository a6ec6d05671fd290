import { once } from "node:events";
import { connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../engine/clock.ts";
import { HttpServer } from "./http-server.ts";

it("accepts a burst of connections before it starts their requests, and answers all", async () => {
  const count = 200;
  let accepted = 0;
  const acceptedAtStart: number[] = [];
  const server = new HttpServer(
    {
      ...{ host: "127.0.0.1", port: 0, tls: null, allowHosts: [], insecure: false },
      ...{ maxConnections: 1_000, maxPerAddress: 1_000, headersMs: 60_000, writeMs: 60_000 },
    },
    { ...systemClock, monotonic: () => 0 }, // so that no request is started because it was held for long
    () => {},
    (_, response) => {
      acceptedAtStart.push(accepted);
      response.end();
    },
  );
  server.node.on("connection", () => {
    accepted += 1;
  });
  const { port } = await server.listen();
  onTestFinished(() => server.stop(0));
  await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(port, "127.0.0.1");
      socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
      await once(socket, "data");
      socket.destroy();
    }),
  );
  expect(acceptedAtStart).toHaveLength(count);
  // The first few connections are not a burst yet. Without the hold each request is started before the next connection is accepted.
  expect(acceptedAtStart[5]).toBeGreaterThan(count / 2);
});
