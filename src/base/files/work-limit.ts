/** Limits the work that a file can ask for. Bytes alone say little: a list of a kilobyte that a file names a million times is a gigabyte of work. */
export class WorkLimit {
  readonly #what: string;
  readonly #most: number;
  #steps = 0;

  /**
   * @param what - The subject of the message: `its pickle`.
   * @param most - Maximum number of steps, each a microsecond or 100 bytes at most.
   */
  constructor(what: string, most: number) {
    this.#what = what;
    this.#most = most;
  }

  /** Counts steps. Throws an error with the reason if they are too many. */
  spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps > this.#most) throw new Error(`${this.#what} has more than ${this.#most} steps`);
  }
}
