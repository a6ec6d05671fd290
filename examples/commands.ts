/** Commands and HTTP requests as jobs, from the library: a command that resumes after its first attempt failed, and a request
 *  to an API that is busy at first. Run it with: npx tsx examples/commands.ts */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exec, http, Perdure } from "perdure";

const perdure = await Perdure.open();

// An API that is busy at first. It listens on loopback, which the worker must permit.
let requests = 0;
const server = createServer((_request, response) => {
  requests += 1;
  response.statusCode = requests === 1 ? 503 : 200;
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ requests }));
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const { port } = server.address() as AddressInfo;

await perdure.work([exec, http], {
  name: "worker-1",
  allowAddresses: ["127.0.0.1"],
  onOutput: ({ stream, bytes }) => {
    process.stdout.write(`${stream}: ${Buffer.from(bytes)}`);
    return undefined;
  },
});

const retry = { maxAttempts: 3, backoff: { initial: "50ms" } } as const;

// The first attempt writes a checkpoint and fails; the second resumes from it.
const script = `
  if [ -n "$PERDURE_PREVIOUS_OUTPUT_DIR" ]; then
    cp "$PERDURE_PREVIOUS_OUTPUT_DIR/checkpoint" artifacts/resumed.txt
    echo "resumed in attempt $PERDURE_ATTEMPT"
  else
    echo "half of it" > checkpoint
    echo "power is out" >&2
    exit 7
  fi`;
const command = await perdure.submit(exec, { command: script, shell: true }, { retry, timeout: "1m" });
const { exitCode, outputs } = await command.result();
console.log(`exit code ${exitCode}, outputs: ${outputs.map((file) => `${file.name} (${file.size} bytes)`).join(", ")}`);
for (const { attempt, failure } of await command.attempts())
  console.log(`attempt ${attempt}: ${failure?.message ?? "ok"}`);

const request = await perdure.submit(http, { url: `http://127.0.0.1:${port}/status` }, { retry });
const { status_code, body } = await request.result();
console.log(`HTTP ${status_code} after ${(await request.get()).attempt} attempts: ${JSON.stringify(body)}`);

server.close();
await perdure.close();
