/** The names of photos that a table or a stream holds, where several rows have one name. */
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { identityOfItem, type Named } from './input-names.js';
import type { KnownInputs } from './known-inputs.js';

/**
 * Names photos by their rows where an earlier row of the source has their name: `1.jpg#57`. Hugging Face's datasets keep the last part of
 * a path only, so `cat/1.jpg` and `dog/1.jpg` are two rows `1.jpg`.
 *
 * @remarks Holds no names: the inputs that this run has seen are those that are taken.
 */
export class RowNames {
  readonly #known: KnownInputs;
  /** The row that was named last: clips of one row follow each other. */
  #latest: { readonly given: string; readonly row: number; readonly own: string } | undefined;

  constructor(known: KnownInputs) {
    this.#known = known;
  }

  /** The input under its own name. Call it in the source's order, when those before are marked as seen. */
  nameOwn(item: Named<SourceItem>): Named<SourceItem> {
    const { path, heldIn } = item;
    if (heldIn === undefined) return item;
    if (this.#latest?.given !== path || this.#latest.row !== heldIn) {
      let own = path;
      while (this.#known.find(identityOfItem({ ...item, path: own }))?.isSeen === true) own += `#${heldIn}`;
      this.#latest = { given: path, row: heldIn, own };
    }
    const { own } = this.#latest;
    return own === path ? item : { ...item, path: own };
  }
}
