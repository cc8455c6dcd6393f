/** Checks the page headers of a Parquet column before a reader trusts their sizes. */

/** The most bytes of a page, decompressed. */
const MAX_PAGE_BYTES = 1024 ** 3;

/**
 * Checks that the pages follow each other, that no page is larger than the rest of the column, and that together they do not
 * hold more values than the row group has rows. Otherwise a reader would loop forever, or allocate memory for values that do not
 * exist.
 *
 * @param bytes - A column of a row group.
 * @throws Error that names the damaged page.
 */
export async function checkPages(bytes: ArrayBuffer, rows: number): Promise<void> {
  const { deserializeTCompactProtocol } = await import('hyparquet/src/thrift.js');
  const reader = { view: new DataView(bytes), offset: 0 };
  let values = 0;
  while (reader.offset < bytes.byteLength) {
    const at = reader.offset;
    const header = deserializeTCompactProtocol(reader) as PageHeader;
    const { field_2: unpacked, field_3: packed } = header;
    const dictionary = header.field_7?.field_1;
    const data = (header.field_5 ?? header.field_8)?.field_1;
    // A text in a dictionary takes at least 4 bytes.
    const isRight =
      isCount(unpacked, MAX_PAGE_BYTES) &&
      isCount(packed, bytes.byteLength - reader.offset) &&
      (isCount(dictionary, unpacked / 4) || isCount(data, rows - values));
    if (!isRight) throw new Error(`the page at byte ${at} of a column is damaged`);
    values += data ?? 0;
    reader.offset += packed;
  }
}

/** The checked fields of a page header. */
interface PageHeader {
  /** Size in bytes, decompressed. */
  readonly field_2?: unknown;
  /** Size in bytes in the file. */
  readonly field_3?: unknown;
  /** The number of values: in a data page, and in a data page of version 2. */
  readonly field_5?: { readonly field_1?: number };
  readonly field_8?: { readonly field_1?: number };
  /** The number of values in a dictionary page. */
  readonly field_7?: { readonly field_1?: number };
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}
