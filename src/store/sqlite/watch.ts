/** Notices that another process wrote: SQLite keeps a number that changes with each commit of another connection. */
import type { Database } from "./driver.ts";

const LOOK_EVERY_MS = 25;

export function watcher(db: Database, shared: boolean) {
  const version = db.prepare("pragma data_version");
  version.setReturnArrays(true);
  const listeners = new Set<() => void>();
  let timer: ReturnType<typeof setInterval> | null = null;
  let seen: number | null = null;

  /** Null: it cannot be told now, as while another process mends the file. Then something may have changed. */
  function read(): number | null {
    try {
      return (version.get() as [number])[0];
    } catch {
      return null;
    }
  }
  function look(): void {
    const now = read();
    if (now !== null && now === seen) return;
    seen = now;
    for (const listener of [...listeners]) listener();
  }
  function stop(): void {
    if (timer !== null) clearInterval(timer);
    timer = null;
  }

  return {
    add(listener: () => void): () => void {
      listeners.add(listener);
      if (shared && timer === null) {
        seen = read();
        timer = setInterval(look, LOOK_EVERY_MS);
        timer.unref();
      }
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0) stop();
      };
    },
    stop,
  };
}
