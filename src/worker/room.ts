/** What of a worker's cpu and memory is left for jobs that name their needs. Counted, and nothing else: jobs that name none
 *  take none here, and nobody is kept from using more than it named. */
import { fits, NO_RESOURCES, type Resources, without } from "../core/resources.ts";

export class Room {
  readonly #all: Resources;
  #taken: Resources = NO_RESOURCES;

  constructor(all: Resources) {
    this.#all = all;
  }

  get left(): Resources {
    return without(this.#all, this.#taken);
  }

  take({ cpu, memory }: Resources): void {
    this.#taken = { cpu: this.#taken.cpu + cpu, memory: this.#taken.memory + memory };
  }

  giveBack(needs: Resources): void {
    this.#taken = without(this.#taken, needs);
  }

  /** There is more of something than there was then. */
  hasGrownSince(then: Resources): boolean {
    return !fits(this.left, then);
  }
}
