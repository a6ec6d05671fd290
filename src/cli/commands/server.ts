/** `perdure server`: a server alone. Workers are other processes, here or on other hosts. */
import type { CliCommand } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import { EXIT } from "../exit.ts";
import { processLog, SERVER_KEYS } from "../serve/process-settings.ts";
import { untilStopped } from "../stop-signals.ts";
import { refusePassword } from "../target/target.ts";

/** Requests under way are answered within this time, or cut. */
const GRACE_MS = 10_000;

export const server: CliCommand = {
  name: "server",
  summary: "Serve jobs over HTTP, for workers on any number of hosts",
  usage: "perdure server [OPTIONS]",
  about:
    "Any number of servers may share one PostgreSQL database; none of them is special. With SQLite there is one server for a " +
    "data directory. Without HTTPS it listens on this machine only. Prints its address when it is ready, and logs to stderr.",
  options: [
    ...optionsFor(SERVER_KEYS),
    { name: "json", type: "boolean", help: "Print what it says at the start as one JSON object." },
  ],
  examples: [
    "perdure server --data /var/lib/perdure --port 4400",
    "perdure server --db postgres://perdure@db.example/jobs --port 4400",
    "perdure server --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
  ],

  async run(context) {
    const { given, io, out } = context;
    given.atMost(0);
    const config = loadConfig(context, SERVER_KEYS);
    refusePassword(context, config);
    const log = processLog(config, io, "server");
    // From the beginning: who asks us to stop while we start is heard too.
    const { asked, forced } = untilStopped((text) => log("info", text));
    void forced.then((code) => process.exit(code));
    // Loaded here: other commands need none of it.
    const { startServing } = await import("../serve/start-server.ts");
    const serving = await startServing(context, config, log, { hasWorkers: false });
    const { url, store, tokens } = serving;
    if (given.flag("json")) out.json({ url, store, tokenFile: tokens.file, pid: process.pid });
    else {
      out.line(`Perdure serves ${store} at ${url}`);
      const elsewhere = "The tokens are with the first server; `perdure token create --db …` makes more";
      out.line(tokens.file === null ? elsewhere : `The token is in ${tokens.file}`);
      out.line(`Start workers: perdure worker --server ${url} --token-file ${tokens.workerFile ?? "FILE"}`);
    }
    const signal = await asked;
    await serving.stop(GRACE_MS);
    log("info", "stopped", { signal });
    return EXIT.done;
  },
};
