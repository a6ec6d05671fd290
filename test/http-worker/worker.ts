/** A worker for commands in a separate process: `worker.ts <url> <token> <dir>`. Its lease is long, so that a machine that is busy
 *  for seconds does not end it: its death is seen by its process id. */
import { connectWorker, exec } from "../../src/worker/index.ts";

const [url = "", token = "", dir = ""] = process.argv.slice(2);
await connectWorker(url, [exec], { token, dir, lease: "60s" });
process.stdout.write("working\n");
