/** Files that look like images and are not read. */
import { extensionOf, unreadAdvice } from '../../../images/decode/image-names.js';

/** The number of files by extension, such as `{ '.heic': 12 }`, in the order of the extensions. */
export type UnreadCounts = Readonly<Record<string, number>>;

/** Counts the files of a source that look like images and are not read. */
export class UnreadFiles {
  readonly #counts = new Map<string, number>();

  add(name: string): void {
    const extension = extensionOf(name);
    this.#counts.set(extension, (this.#counts.get(extension) ?? 0) + 1);
  }

  clear(): void {
    this.#counts.clear();
  }

  get counts(): UnreadCounts {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Says how many files were skipped and what to do: a sentence per extension. */
export function describeUnread(counts: UnreadCounts): string[] {
  return Object.entries(counts).map(([extension, count]) => {
    const files = count === 1 ? `1 ${extension} file was` : `${count} ${extension} files were`;
    return `${files} skipped: ${unreadAdvice(extension)}`;
  });
}
