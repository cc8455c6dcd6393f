/** The rows of a dataset under the names that its photos have now: older datasets named a URL as a whole, signature included. */
import { join } from 'node:path';
import { nameOfUrl, type UrlName } from '../../base/url-names.js';
import { readMetadata, type MetadataRow } from '../formats/metadata.js';
import { KnownInputs } from '../records/known-inputs.js';

/** Reads metadata again and again, and names the same rows the same. */
export class RowReader {
  readonly #rule: UrlName;
  /** The URLs that were names, each with the number that tells it from others of its new name; 0 for the first. */
  readonly #urls = new KnownInputs();
  readonly #names = new KnownInputs();
  /** The metadata files with such names. */
  readonly renamed: Set<string> = new Set();

  constructor(rule: UrlName) {
    this.#rule = rule;
  }

  /** Reads a metadata file. Throws `DATASET_INVALID`. */
  async *read(folder: string, metadata: string): AsyncGenerator<MetadataRow> {
    for await (const row of readMetadata(join(folder, metadata))) {
      const path = row.path === null ? null : this.nameOf(row.path);
      if (path !== row.path) this.renamed.add(metadata);
      yield path === row.path ? row : { ...row, path };
    }
  }

  /** The name of a photo. Two URLs that differ in credentials alone were two rows, and stay two. */
  nameOf(given: string): string {
    const name = nameOfUrl(given, this.#rule);
    if (name === given) return name;
    if (!this.#urls.find(given)) {
      this.#urls.set(given, 'ok', null, this.#names.find(name) ? this.#urls.size : 0);
      this.#names.reserve(name);
    }
    const number = this.#urls.find(given)!.shard;
    return number === 0 ? name : `${name}#${number}`;
  }
}
