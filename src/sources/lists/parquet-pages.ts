/** The pages of a Parquet column, looked at before a reader believes what they say of themselves. */

/** Largest page, decompressed. */
const MAX_PAGE_BYTES = 1024 ** 3;

/**
 * Checks that pages follow each other, that none is larger than the rest of the column, and that they do not hold more values
 * than there are rows: a reader would go round in circles, or take memory for values that are not there.
 *
 * @param bytes - A column of a row group.
 * @throws What is wrong.
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
    // A text in a dictionary takes 4 bytes and more.
    const isRight =
      isCount(unpacked, MAX_PAGE_BYTES) &&
      isCount(packed, bytes.byteLength - reader.offset) &&
      (isCount(dictionary, unpacked / 4) || isCount(data, rows - values));
    if (!isRight) throw new Error(`the page at byte ${at} of a column is damaged`);
    values += data ?? 0;
    reader.offset += packed;
  }
}

/** What is looked at of a page's header. */
interface PageHeader {
  /** Bytes, decompressed. */
  readonly field_2?: unknown;
  /** Bytes in the file. */
  readonly field_3?: unknown;
  /** Of a page of values, and one of the second version: how many. */
  readonly field_5?: { readonly field_1?: number };
  readonly field_8?: { readonly field_1?: number };
  /** Of a dictionary: how many. */
  readonly field_7?: { readonly field_1?: number };
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}
