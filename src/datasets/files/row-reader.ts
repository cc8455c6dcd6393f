/** The rows of a dataset under the names that its photos have now: older datasets named a URL as a whole, signature included. */
import { join } from 'node:path';
import { nameOfUrl, type UrlName } from '../../base/url-names.js';
import { readMetadata, type MetadataRow } from '../formats/metadata.js';
import { readMetadataGroups, type MetadataGroup, type MetadataReading } from '../formats/metadata-columns.js';
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

  /** Reads a metadata file, row by row. Throws `DATASET_INVALID`. */
  async *read(folder: string, metadata: string): AsyncGenerator<MetadataRow> {
    for await (const row of readMetadata(join(folder, metadata))) {
      const path = this.#rename(row.path, metadata);
      yield path === row.path ? row : { ...row, path };
    }
  }

  /** Reads some columns of it, a row group at a time, with the name of each photo. Throws `DATASET_INVALID`. */
  async *readGroups(
    folder: string,
    metadata: string,
    reading: MetadataReading,
  ): AsyncGenerator<{ readonly group: MetadataGroup; readonly nameAt: (i: number) => string | null }> {
    for await (const group of readMetadataGroups(join(folder, metadata), reading))
      yield { group, nameAt: (i) => this.#rename(group.textAt('path', i), metadata) };
  }

  #rename(path: string | null, metadata: string): string | null {
    const name = path === null ? null : this.nameOf(path);
    if (name !== path) this.renamed.add(metadata);
    return name;
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
