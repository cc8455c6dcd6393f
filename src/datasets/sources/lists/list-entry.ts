/** An entry of a list. */
import type { ItemColumns } from '../../../feeds/items/source-item.js';

export interface ListEntry {
  /** The path or URL of an image. */
  readonly entry: string;
  /** What else the list says about it. */
  readonly columns: ItemColumns;
}
