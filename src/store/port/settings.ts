/** Settings in the port: short texts that all processes on a store share. */
import type { EngineRecord } from "../../core/job/event.ts";

export interface SettingStore {
  get(name: string): Promise<string | null>;
  /** Returns the stored value: an existing one wins. */
  setIfAbsent(name: string, value: string): Promise<string>;
  /** Changes a setting whose value is `from`; `to: null` deletes it. False if it has another value, or does not exist. */
  replace(name: string, from: string, to: string | null, record?: EngineRecord): Promise<boolean>;
  /** The secret with which servers of earlier versions signed, which they kept in the database. Null once it is erased. */
  formerSecret(): Promise<string | null>;
  /** Deletes it, and its remains in the files of the database, as far as the store can. */
  eraseFormerSecret(): Promise<void>;
}
