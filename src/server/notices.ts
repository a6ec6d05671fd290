/** Tells workers at once what they would otherwise hear with their next renewal: a cancel that somebody asks for, a drain,
 *  the end of their session. A reply may be lost, so each renewal tells it too.
 *
 *  What a session was told is remembered here, or it would be told the same again without a pause until the run has ended.
 *  Another server does not know of it, and tells it once more. */
import type { NoticeWire } from "../contract/worker-schemas.ts";
import type { Engine } from "../engine/engine.ts";
import type { OpenSession } from "../store/store.ts";

/** Drains and ends are looked for this often, for all sessions that wait here at once. */
const LOOK_MS = 1_000;
/** Sessions that are remembered. One that is forgotten is told again. */
const MAX_SESSIONS = 10_000;

interface SentNotices {
  readonly cancels: ReadonlySet<string>;
  readonly drain: boolean;
}

const NOTHING: SentNotices = { cancels: new Set(), drain: false };

export class Notices {
  readonly #engine: Engine;
  readonly #told = new Map<string, SentNotices>();
  #open: Promise<Map<string, OpenSession>> = Promise.resolve(new Map());
  #openAt = Number.NEGATIVE_INFINITY;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Resolves when there is something new, after `waitMs`, or when aborted; the answer is how things stand. */
  async wait(session: string, waitMs: number, signal: AbortSignal): Promise<NoticeWire> {
    const { store, clock } = this.#engine;
    const until = clock.monotonic() + waitMs;
    const told = this.#told.get(session) ?? NOTHING;
    let wake: () => void = () => {};
    let asked = true;
    const forget = this.#engine.onCancel(session, (jobId, attempt) => {
      if (told.cancels.has(nameOf({ jobId, attempt }))) return;
      asked = true;
      wake();
    });
    try {
      let cancel: NoticeWire["cancel"] = [];
      for (;;) {
        if (asked) {
          asked = false;
          cancel = await store.sessions.cancelsFor([session]);
        }
        const row = await this.#session(session);
        const notice = { alive: row !== undefined, drain: row?.drainingAt != null, cancel };
        const isNews = cancel.some((each) => !told.cancels.has(nameOf(each))) || (notice.drain && !told.drain);
        const left = until - clock.monotonic();
        if (!notice.alive || isNews || left <= 0 || signal.aborted) return this.#tell(session, notice);
        if (asked) continue;
        await new Promise<void>((resolve) => {
          const stop = clock.after(Math.min(left, LOOK_MS), () => wake(), { background: true });
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
    this.#told.delete(session);
  }

  #tell(session: string, notice: NoticeWire): NoticeWire {
    this.#told.delete(session);
    if (notice.alive) this.#told.set(session, { cancels: new Set(notice.cancel.map(nameOf)), drain: notice.drain });
    const [oldest] = this.#told.size > MAX_SESSIONS ? this.#told.keys() : [];
    if (oldest !== undefined) this.#told.delete(oldest);
    return notice;
  }

  /** Undefined when it has ended. One that is not in the list that others asked for may have been opened since. */
  async #session(id: string): Promise<OpenSession | undefined> {
    const isFresh = this.#engine.clock.monotonic() - this.#openAt < LOOK_MS;
    const known = isFresh ? (await this.#open).get(id) : undefined;
    return known ?? (await this.#look()).get(id);
  }

  #look(): Promise<Map<string, OpenSession>> {
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
