/** Long poll with which workers get cancels, drains and the end of their session at once. Since a reply may be lost, each renewal
 *  returns them too.
 *
 *  What was sent to a session is remembered, so that the same notice is not returned in a tight loop until the attempt has ended.
 *  Another server does not know that, and sends it again. */
import type { NoticeWire } from "../contract/worker-schemas.ts";
import type { Engine } from "../engine/engine.ts";
import type { OpenSession } from "../store/store.ts";

/** Drains and ended sessions are polled at this interval, in one query for all waiting sessions. */
const POLL_MS = 1_000;
/** Sessions that are remembered; to others, notices are sent again. */
const MAX_SESSIONS = 10_000;

interface SentNotices {
  readonly cancels: ReadonlySet<string>;
  readonly drain: boolean;
}

const NOTHING: SentNotices = { cancels: new Set(), drain: false };

export class Notices {
  readonly #engine: Engine;
  readonly #sent = new Map<string, SentNotices>();
  #open: Promise<Map<string, OpenSession>> = Promise.resolve(new Map());
  #openAt = Number.NEGATIVE_INFINITY;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Resolves with the current state when there is something new, after `waitMs`, or when aborted. */
  async wait(session: string, waitMs: number, signal: AbortSignal): Promise<NoticeWire> {
    const { store, clock } = this.#engine;
    const until = clock.monotonic() + waitMs;
    const sent = this.#sent.get(session) ?? NOTHING;
    let wake: () => void = () => {};
    let hasCancel = true;
    const forget = this.#engine.onCancel(session, (jobId, attempt) => {
      if (sent.cancels.has(nameOf({ jobId, attempt }))) return;
      hasCancel = true;
      wake();
    });
    try {
      let cancel: NoticeWire["cancel"] = [];
      for (;;) {
        if (hasCancel) {
          hasCancel = false;
          cancel = await store.sessions.cancelsFor([session]);
        }
        const row = await this.#session(session);
        const notice = { alive: row !== undefined, drain: row?.drainingAt != null, cancel };
        const isNews = cancel.some((each) => !sent.cancels.has(nameOf(each))) || (notice.drain && !sent.drain);
        const left = until - clock.monotonic();
        if (!notice.alive || isNews || left <= 0 || signal.aborted) return this.#record(session, notice);
        if (hasCancel) continue;
        await new Promise<void>((resolve) => {
          const stop = clock.after(Math.min(left, POLL_MS), () => wake(), { background: true });
          wake = () => {
            stop();
            signal.removeEventListener("abort", wake);
            resolve();
          };
          signal.addEventListener("abort", wake);
        });
      }
    } finally {
      forget();
    }
  }

  forget(session: string): void {
    this.#sent.delete(session);
  }

  #record(session: string, notice: NoticeWire): NoticeWire {
    this.#sent.delete(session);
    if (notice.alive) this.#sent.set(session, { cancels: new Set(notice.cancel.map(nameOf)), drain: notice.drain });
    const [oldest] = this.#sent.size > MAX_SESSIONS ? this.#sent.keys() : [];
    if (oldest !== undefined) this.#sent.delete(oldest);
    return notice;
  }

  /** Undefined when it has ended. A session that is missing in the cached list may have been opened since. */
  async #session(id: string): Promise<OpenSession | undefined> {
    const isFresh = this.#engine.clock.monotonic() - this.#openAt < POLL_MS;
    const known = isFresh ? (await this.#open).get(id) : undefined;
    return known ?? (await this.#listOpen()).get(id);
  }

  #listOpen(): Promise<Map<string, OpenSession>> {
    this.#openAt = this.#engine.clock.monotonic();
    this.#open = this.#engine.store.sessions
      .listOpen()
      .then((rows) => new Map(rows.map((row) => [row.id, row])))
      .catch((error: unknown) => {
        this.#openAt = Number.NEGATIVE_INFINITY;
        throw error;
      });
    return this.#open;
  }
}

function nameOf({ jobId, attempt }: { readonly jobId: string; readonly attempt: number }): string {
  return `${jobId}.${attempt}`;
}
