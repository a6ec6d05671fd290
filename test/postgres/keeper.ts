/** Leaves nothing behind, however the process that started a server ends, including kill -9, when no hook of its own
 *  runs. A shell in the background holds the other end of a pipe. It gets the pid of the running process; when the pipe
 *  closes, because its owner closed it or exited, it ends that process and removes the directory. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";

// SIGQUIT is the server's immediate shutdown, in which it kills after five seconds what does not end by itself; hence
// ten. SIGCONT, because a test may have stopped it. In a container, an ended process can stay for long as a zombie.
const SCRIPT = `
alive() { kill -0 "$pid" && ! grep -q ') Z ' "/proc/$pid/stat"; }
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
  kill -QUIT "$pid" && kill -CONT "$pid"
  tries=0
  while alive && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
  kill -KILL "$pid"
fi 2>/dev/null
rm -rf -- "$1"
`;

export class Keeper {
  readonly #shell: ChildProcess;
  readonly #ended: Promise<void>;

  constructor(directory: string) {
    // In a separate session: Ctrl-C in a terminal must not reach it.
    this.#shell = spawn("/bin/sh", ["-c", SCRIPT, "keeper", directory], {
      cwd: "/",
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    this.#ended = new Promise((resolve, reject) => {
      this.#shell.once("error", reject);
      this.#shell.once("exit", () => resolve());
    });
    this.#ended.catch(() => {}); // reported to whoever ends it
    this.#shell.stdin?.on("error", () => {});
    (this.#shell.stdin as Socket).unref(); // a process that has nothing else to do may end
    this.#shell.unref();
  }

  /** The running process; undefined if there is none. */
  watch(pid: number | undefined): void {
    this.#shell.stdin?.write(`${pid ?? 0}\n`);
  }

  /** Ends what runs, and resolves when the directory is deleted. */
  async end(): Promise<void> {
    this.#shell.ref();
    this.#shell.stdin?.end();
    await this.#ended;
  }
}
