/** Probes as files: JSON, with numbers in base64. */
import { boolean, readOptions, type Fields } from '../../../base/options.js';
import { checkAbsent, writeAtomically } from '../../../base/atomic-file.js';
import { checkPath, checkText, invalidOption, isPlainObject, type Options } from '../../../base/checks.js';
import { readJson } from '../../../base/read-json.js';
import { checkProbe, findProbeFault, type Probe } from './probe.js';

const FORMAT = 'onnx-tapir probe';
const VERSION = 1;
/** The longest text of V8: the vectors of a probe of neighbours are a text. */
const MOST_BYTES = 2 ** 29;

/** The typed arrays of a probe, by the word that stands before their base64. */
const ARRAYS = { float32: Float32Array, float64: Float64Array, int32: Int32Array } as const;
type Word = keyof typeof ARRAYS;

/** Options of {@link saveProbe}. */
export interface SaveProbeOptions {
  /**
   * Replace a file that exists.
   * @default false
   */
  readonly overwrite: boolean;
}

export const SAVE_PROBE_FIELDS: Fields<SaveProbeOptions> = { overwrite: boolean(false) };

/**
 * Writes a probe to a file, with its results.
 *
 * @throws {@link TapirError} `OUTPUT_EXISTS`; `OUTPUT_UNWRITABLE`.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 * import { readProbe, saveProbe, trainProbe } from 'onnx-tapir/features';
 *
 * await saveProbe(await trainProbe(await openDataset('vectors'), 'by-folder'), 'probe.json');
 * console.log((await readProbe('probe.json')).classes); // ['cat', 'dog']
 * ```
 */
export async function saveProbe(
  probe: Probe,
  path: string,
  given: Options<SaveProbeOptions> = {},
): Promise<void> {
  checkProbe(probe);
  const { overwrite } = readOptions(SAVE_PROBE_FIELDS, given, 'saveProbe');
  if (!overwrite) checkAbsent(checkText('path', path));
  await writeAtomically(checkText('path', path), encodeProbe(probe));
}

/** The bytes of a probe's file. */
export function encodeProbe(probe: Probe): Uint8Array {
  const text = JSON.stringify({ format: FORMAT, formatVersion: VERSION, ...probe }, packArray, 2);
  return Buffer.from(`${text}\n`);
}

/**
 * Reads a probe that {@link saveProbe} wrote.
 *
 * @param path - A path or `file:` URL.
 * @throws {@link TapirError} `OPTION_INVALID` for a file that cannot be read or is no probe.
 */
// oxlint-disable-next-line require-await -- the contract: what touches a file returns a promise, errors included
export async function readProbe(path: string | URL): Promise<Probe> {
  const file = checkPath('path', path);
  const wrong = (reason: string): Error =>
    invalidOption('probe', 'a file that tapir probe --save wrote', `${file}: ${reason}`);
  const read = readJson(file, wrong, MOST_BYTES);
  if (read === undefined) throw wrong('there is no such file');
  if (!isPlainObject(read) || read['format'] !== FORMAT) throw wrong('it is no probe');
  if (read['formatVersion'] !== VERSION)
    throw wrong(`its format is of version ${String(read['formatVersion'])}`);
  const { format: _format, formatVersion: _version, ...fields } = read;
  const { head } = fields;
  const probe = isPlainObject(head) ? { ...fields, head: unpackArrays(head) } : fields;
  const reason = findProbeFault(probe);
  if (reason !== undefined) throw wrong(reason);
  return probe as unknown as Probe;
}

function packArray(_key: string, value: unknown): unknown {
  const found = Object.entries(ARRAYS).find(([, kind]) => value instanceof kind);
  if (!found) return value;
  const { buffer, byteOffset, byteLength } = value as Float32Array;
  return `${found[0]}:${Buffer.from(buffer, byteOffset, byteLength).toString('base64')}`;
}

const PACKED = /^(float32|float64|int32):([A-Za-z0-9+/]*={0,2})$/;
function unpackArrays(head: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(head).map(([key, value]) => [key, unpackArray(value)]));
}

function unpackArray(value: unknown): unknown {
  const [, word, text] = (typeof value === 'string' && PACKED.exec(value)) || [];
  if (word === undefined) return value;
  const bytes = Uint8Array.from(Buffer.from(text!, 'base64'));
  const kind = ARRAYS[word as Word];
  return new kind(bytes.buffer, 0, Math.floor(bytes.byteLength / kind.BYTES_PER_ELEMENT));
}
