/** Records of JSON lines: each has the path or the bytes of an image, and other fields. */
import { nameOfUrl } from '../../../base/url-names.js';
import { readBase64 } from '../../../base/read-base64.js';
import { missingImage } from '../../../photos/images/file/image-errors.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { itemOfEntry, type EntryPlan } from '../../../photos/feeds/items/entries.js';
import { SourceFault } from '../items/source-errors.js';
import { memberTexts } from '../items/member-texts.js';
import { parseLine, splitLines, type Line } from '../items/lines.js';
import { SOURCE_DEFAULTS } from '../../../photos/feeds/items/source-options.js';
import type { Carried, SourceRecord } from './source-record.js';

/** The field with the bytes of an image as base64. */
const IMAGE_FIELD = 'image';
const PATH_FIELD = SOURCE_DEFAULTS.column;
/** The most bytes of a record: an image of 48 MiB as base64, and 1 MiB of other fields. */
const MAX_RECORD_BYTES = 65 * 1024 ** 2;

/** Reads the records of a stream. Skips blank lines. See `openRecords`. */
export async function* readJsonlRecords(
  bytes: AsyncIterable<Uint8Array>,
  plan: EntryPlan,
): AsyncGenerator<SourceRecord<Carried>> {
  for await (const line of splitLines(bytes, { maxBytes: MAX_RECORD_BYTES }))
    if (line.text.trim() !== '') yield readRecord(line, plan);
}

function readRecord(line: Line, plan: EntryPlan): SourceRecord<Carried> {
  const { text, number } = line;
  const fail = (reason: string): Error => new SourceFault(reason, { line: number });
  const record = parseLine(line);
  if (typeof record !== 'object' || record === null || Array.isArray(record))
    throw fail('it is not a JSON object');
  const values = record as Readonly<Record<string, unknown>>;
  const field = fieldOf(values, plan.column);
  if (field === undefined)
    throw fail(
      `it has no field "${plan.column}" and no "${IMAGE_FIELD}"; choose the field of the path with --column`,
    );
  const fields = memberTexts(text);
  fields.delete(field);
  const extra: Carried = { kind: 'json', line: number, fields };
  const value = values[field];
  const isBytes = field === IMAGE_FIELD;
  const named = isBytes ? values[PATH_FIELD] : value;
  const path = typeof named === 'string' ? nameOfUrl(named) : null;
  // The path becomes the name of the row.
  if (isBytes && path !== null) fields.delete(PATH_FIELD);
  const held = isBytes ? { heldIn: number - 1 } : {};
  if (value === null)
    return { item: { path, image: '', ...held, error: missingImage(path ?? 'an image') }, extra };
  if (typeof value !== 'string' || value === '') throw fail(`it has no text in the field "${field}"`);
  if (!isBytes) return { item: itemOfEntry(value, plan), extra };
  const image = readBase64(value);
  if (!image) throw fail(`its field "${field}" holds no image in base64, bare or as a data URI`);
  // Copies: a slice would keep the whole line in memory, image included.
  for (const [name, part] of fields) fields.set(name, Buffer.from(part, 'utf8').toString('utf8'));
  const item: SourceItem = { path, image, ...held };
  return { item, extra };
}

/** The field with the image: the requested one, else the field of bytes. */
function fieldOf(values: Readonly<Record<string, unknown>>, column: string): string | undefined {
  return [column, ...(column === PATH_FIELD ? [IMAGE_FIELD] : [])].find((name) =>
    Object.hasOwn(values, name),
  );
}
