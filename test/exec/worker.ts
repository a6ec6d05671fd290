/** A worker for commands in a separate process. It prints: ready · output TEXT · died WHY. Ends with its stdin. */

import type { Duration } from "../../src/core/duration.ts";
import { exec } from "../../src/core/input/builtin.ts";
import { Perdure } from "../../src/embedded/perdure.ts";

const { url, lease = "15s", concurrency = 20 } = JSON.parse(process.argv[2] as string) as Record<string, string>;
process.stdin.on("end", () => process.exit(1)).resume(); // the test has ended, and nothing else would end this process
const perdure = await Perdure.open({ url: url as string, lease: lease as Duration });
await perdure.work([exec], { concurrency: Number(concurrency) });
console.log("ready");
