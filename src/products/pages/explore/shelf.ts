/** Things that are costly to open, the last few of which stay open. */

/** Keeps what was used last. */
export class Shelf<Item extends { close(): Promise<void> }> {
  readonly #items = new Map<string, Promise<Item>>();
  readonly #most: number;
  #closing: Promise<void>[] = [];

  /** @param most - How many items stay open. */
  constructor(most: number) {
    this.#most = most;
  }

  /** The item of a key, opened if it is not open. What fails to open is opened again the next time. */
  take(key: string, open: () => Promise<Item>): Promise<Item> {
    const item = this.#items.get(key) ?? open();
    this.#items.delete(key);
    this.#items.set(key, item);
    item.catch(() => {
      // By now, another item may have the key.
      if (this.#items.get(key) === item) this.#items.delete(key);
    });
    const [oldest] = this.#items.keys();
    if (this.#items.size > this.#most) this.#drop(oldest!);
    return item;
  }

  /** Closes all items. */
  async close(): Promise<void> {
    for (const key of this.#items.keys()) this.#drop(key);
    await Promise.all(this.#closing);
  }

  #drop(key: string): void {
    const item = this.#items.get(key)!;
    this.#items.delete(key);
    this.#closing.push(
      item.then(
        (opened) => opened.close(),
        () => undefined,
      ),
    );
  }
}
