/** Records of an Arrow stream: a column of paths or of image files, and other columns. */
import { loadArrow, nameOfType, type Arrow, type Data, type Field } from '../../formats/library.js';
import { readBatch } from './stream-batch.js';
import { broken, readChecked, readMessages, type ArrowMessage } from './stream-messages.js';
import { readSchema, type StreamSchema } from './stream-schema.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { itemOfEntry, type EntryPlan } from '../../../photos/feeds/items/entries.js';
import { findImageColumn, PATH_COLUMN } from '../items/image-column.js';
import { SourceFault } from '../items/source-errors.js';
import { nameOfUrl } from '../../../base/url-names.js';
import { missingImage } from '../../../photos/images/file/image-errors.js';
import type { ByteReader } from '../items/byte-reader.js';
import type { Carried, RecordInput, SourceRecord } from './source-record.js';

/** What the columns are, by their index. */
interface Columns {
  readonly image: number;
  /** The names of images that are bytes. */
  readonly label: number | undefined;
  readonly holdsPaths: boolean;
  readonly carried: readonly number[];
}

/** Opens a stream and reads its schema. See `openRecords`. */
export async function openArrowRecords(
  reader: ByteReader,
  plan: EntryPlan,
): Promise<Required<Pick<RecordInput, 'schema' | 'records'>>> {
  const arrow = await loadArrow();
  const messages = readMessages(reader);
  const first = await messages.next();
  if (first.done === true) throw new SourceFault('it has no schema: the Arrow stream is empty');
  const { kind, header, metadataBytes, number } = first.value;
  if (kind !== 'schema') throw broken(number, `it is a ${kind} instead of the schema`);
  const { fields, metadata } = readChecked(number, () => readSchema(arrow, header, metadataBytes));
  const columns = chooseColumns(arrow, fields, plan.column);
  const schema: StreamSchema = { fields: columns.carried.map((index) => fields[index]!), metadata };
  const read = (message: ArrowMessage): { rows: number; columns: readonly Data[] } =>
    readChecked(message.number, () => readBatch(arrow, fields, message.header, message.body));
  async function* records(): AsyncGenerator<SourceRecord<Carried>> {
    let before = 0;
    try {
      for await (const message of messages) {
        if (message.kind !== 'batch')
          throw broken(message.number, `it is a ${message.kind} instead of a record batch`);
        const batch = read(message);
        yield* recordsOf(batch, columns, plan, before);
        before += batch.rows;
      }
    } finally {
      await reader.close();
    }
  }
  return { schema, records: records() };
}

function chooseColumns(arrow: Arrow, fields: readonly Field[], column: string): Columns {
  const names = fields.map(({ name }) => name);
  const image = names.indexOf(findImageColumn(column, names));
  const { type } = fields[image]!;
  const { DataType: Types } = arrow;
  const isText = (index: number): boolean =>
    index >= 0 && (Types.isUtf8(fields[index]!.type) || Types.isLargeUtf8(fields[index]!.type));
  const holdsPaths = isText(image);
  if (!holdsPaths && !Types.isBinary(type) && !Types.isLargeBinary(type))
    throw new SourceFault(
      `its column "${names[image]!}" is of type ${nameOfType(type)}; images are text (paths) or binary (files)`,
    );
  const paths = names.indexOf(PATH_COLUMN);
  const label = !holdsPaths && paths !== image && isText(paths) ? paths : undefined;
  const carried = names.map((_, index) => index).filter((index) => index !== image && index !== label);
  return { image, label, holdsPaths, carried };
}

function* recordsOf(
  { rows, columns }: { readonly rows: number; readonly columns: readonly Data[] },
  { image, label, holdsPaths, carried }: Columns,
  plan: EntryPlan,
  before: number,
): Generator<SourceRecord<Carried>> {
  const kept = carried.map((index) => columns[index]!);
  for (let row = 0; row < rows; row++) {
    const bytes = valueOf(columns[image]!, row);
    const name = holdsPaths ? bytes : label === undefined ? null : valueOf(columns[label]!, row);
    yield {
      item: itemOf(bytes, name && decoder.decode(name), holdsPaths, plan, before + row),
      extra: { kind: 'arrow', columns: kept, row },
    };
  }
}

/** A name that is not UTF-8 must not end the run: its file is not found, and its row shows the name. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function itemOf(
  bytes: Uint8Array | null,
  text: string | null,
  holdsPaths: boolean,
  plan: EntryPlan,
  heldIn: number,
): SourceItem {
  const path = text && nameOfUrl(text);
  const held = holdsPaths ? {} : { heldIn };
  if (bytes === null) return { path, image: '', ...held, error: missingImage(path ?? 'an image') };
  return holdsPaths ? itemOfEntry(text!, plan) : { path, image: bytes, ...held };
}

/** Returns the bytes of a text or binary value; null for a null. */
function valueOf(column: Data, row: number): Uint8Array | null {
  if (!column.getValid(row)) return null;
  const offsets = column.valueOffsets as Int32Array | BigInt64Array;
  return (column.values as Uint8Array).subarray(Number(offsets[row]), Number(offsets[row + 1]));
}
