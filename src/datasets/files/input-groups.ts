/** The inputs of a dataset by columns, for questions about all of them. */
import { nameOfUrl } from '../../base/url-names.js';
import { readMetadataGroups, type MetadataGroup, type MetadataReading } from '../formats/metadata-columns.js';
import { locateFile } from '../records/locate-file.js';
import { rowsOf, type Manifest } from './manifest.js';

/** Where a dataset lies. */
export interface DatasetPlace {
  readonly folder: string;
  readonly manifest: Pick<Manifest, 'shards'>;
}

/** What to read of the metadata of a dataset. */
export interface InputReading extends Pick<MetadataReading, 'own' | 'withCarried'> {
  /** Only shards that hold one of these rows. */
  readonly among?: ReadonlySet<number>;
}

/**
 * Reads the metadata of a dataset once, a row group at a time. Inputs that were removed are among them, without a row.
 *
 * @throws {@link TapirError} `DATASET_INVALID`.
 */
export async function* readInputGroups(
  { folder, manifest }: DatasetPlace,
  { among, ...reading }: InputReading,
): AsyncGenerator<MetadataGroup> {
  const totalRows = rowsOf(manifest);
  const wanted = among && Float64Array.from(among).sort();
  let next = 0;
  for (const { metadata, firstRow, rows } of manifest.shards) {
    if (wanted) {
      while (next < wanted.length && wanted[next]! < firstRow) next++;
      if (next === wanted.length || wanted[next]! >= firstRow + rows) continue;
    }
    yield* readMetadataGroups(await locateFile(folder, metadata), { ...reading, totalRows });
  }
}

/** The name of an input. The names of older datasets have signatures. */
export function nameAt(group: MetadataGroup, i: number): string | null {
  const path = group.textAt('path', i);
  return path && nameOfUrl(path, 'url');
}
