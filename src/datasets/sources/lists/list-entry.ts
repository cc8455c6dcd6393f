/** An entry of a list. */
import type { ItemColumns, SourceItem } from '../../../photos/feeds/items/source-item.js';

export interface ListEntry<Entry extends string | SourceItem = string> {
  /** The path or URL of an image, or, where a file holds images, the image itself. */
  readonly entry: Entry;
  /** What else the list says about it. */
  readonly columns: ItemColumns;
}
