/** `perdure server`: a server without workers. Workers are other processes, here or on other hosts. */
import { type CliCommand, JSON_START } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import { EXIT } from "../exit.ts";
import { processLog, SERVER_KEYS } from "../serve/process-settings.ts";
import { untilStopped } from "../stop-signals.ts";
import { refusePassword } from "../target/target.ts";

/** Requests in progress are answered within this time, or aborted. */
const GRACE_MS = 10_000;

export const server: CliCommand = {
  name: "server",
  summary: "Start a server, for workers on any number of hosts",
  usage: "perdure server [OPTIONS]",
  about:
    "Any number of equal servers can share one PostgreSQL database; with SQLite, one server per data directory. Without HTTPS " +
    "it listens on this machine only. Prints its address when it is ready, and logs to stderr.",
  options: [...optionsFor(SERVER_KEYS), JSON_START],
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
    // First of all, so that a signal during the start is handled too.
    const { requested, forced } = untilStopped((text) => log("info", text));
    void forced.then((code) => process.exit(code));
    // Loaded here: other commands do not need it.
    const { startServing } = await import("../serve/start-server.ts");
    const serving = await startServing(context, config, log, { hasWorkers: false });
    const { url, store, tokens } = serving;
    if (given.flag("json")) out.json({ url, store, tokenFile: tokens.file, pid: process.pid });
    else {
      out.line(`server of ${store} at ${url}`);
      const elsewhere =
        "The tokens are on the first server of the database; `perdure token create --db …` creates more";
      out.line(tokens.file === null ? elsewhere : `The token is in ${tokens.file}`);
      out.line(`To start a worker: perdure worker --server ${url} --token-file ${tokens.workerFile ?? "FILE"}`);
    }
    const signal = await requested;
    await serving.stop(GRACE_MS);
    log("info", "stopped", { signal });
    return EXIT.done;
  },
};
