/** Detects writes by other processes: SQLite has a number that changes with each commit of another connection. */
import type { Database } from "./driver.ts";

const POLL_EVERY_MS = 25;

export function watcher(db: Database, shared: boolean) {
  const version = db.prepare("pragma data_version");
  version.setReturnArrays(true);
  const listeners = new Set<() => void>();
  let timer: ReturnType<typeof setInterval> | null = null;
  let seen: number | null = null;

  /** Null: unknown for now, as while another process recovers the file. Then something may have changed. */
  function read(): number | null {
    try {
      return (version.get() as [number])[0];
    } catch {
      return null;
    }
  }
  function poll(): void {
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
        timer = setInterval(poll, POLL_EVERY_MS);
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
