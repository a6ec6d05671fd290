/** A worker for commands in a process of its own: `worker.ts <url> <token> <dir>`. */
import { connectWorker, exec } from "../../src/worker/index.ts";

const [url = "", token = "", dir = ""] = process.argv.slice(2);
await connectWorker(url, [exec], { token, dir, lease: "2s" });
process.stdout.write("working\n");
