/** Probes as files: JSON, with numbers in base64. */
import { readFile } from 'node:fs/promises';
import { writeAtomically } from '../../base/atomic-file.js';
import { checkBoolean, checkText, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';
import { checkAbsent } from '../../model/save-whole.js';
import type { Probe, ProbeHead } from './probe.js';

const FORMAT = 'onnx-tapir probe';
const VERSION = 1;

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

/**
 * Writes a probe to a file, with its results.
 *
 * @throws {@link TapirError} `OUTPUT_EXISTS`; `OUTPUT_UNWRITABLE`.
 */
export async function saveProbe(
  probe: Probe,
  path: string,
  given: Options<SaveProbeOptions> = {},
): Promise<void> {
  const { overwrite } = withDefaults({ overwrite: false }, given, 'saveProbe');
  if (!checkBoolean('overwrite', overwrite)) checkAbsent(checkText('path', path));
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
 * @throws {@link TapirError} `OPTION_INVALID` for a file that cannot be read or is no probe.
 */
export async function readProbe(path: string): Promise<Probe> {
  const wrong = (reason: string): Error =>
    invalidOption('probe', 'a file that tapir probe --save wrote', `${path}: ${reason}`);
  let read: Record<string, unknown> | null;
  try {
    read = JSON.parse(await readFile(checkText('path', path), 'utf8'), unpackArray) as typeof read;
  } catch (error) {
    throw wrong(reasonOf(error));
  }
  if (read === null || read['format'] !== FORMAT) throw wrong('it is no probe');
  if (read['formatVersion'] !== VERSION)
    throw wrong(`its format is of version ${String(read['formatVersion'])}`);
  const { format: _format, formatVersion: _version, ...probe } = read;
  const reason = findFault(probe as Partial<Probe>);
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
const PACKED_KEYS: ReadonlySet<string> = new Set(['weight', 'bias', 'vectors', 'labels']);

function unpackArray(key: string, value: unknown): unknown {
  const [, word, text] = (PACKED_KEYS.has(key) && typeof value === 'string' && PACKED.exec(value)) || [];
  if (word === undefined) return value;
  const bytes = Uint8Array.from(Buffer.from(text!, 'base64'));
  const kind = ARRAYS[word as Word];
  return new kind(bytes.buffer, 0, Math.floor(bytes.byteLength / kind.BYTES_PER_ELEMENT));
}

/** What is wrong with a probe; undefined if its numbers fit its classes and dims. */
function findFault({ classes, dims, head }: Partial<Probe>): string | undefined {
  if (!Array.isArray(classes) || !Array.isArray(dims) || head === undefined) return 'parts of it are missing';
  const elements = (dims as readonly number[]).reduce((product, size) => product * size, 1);
  return fits(head, classes.length, elements) ? undefined : 'its weights do not fit its classes and dims';
}

function fits(head: ProbeHead, classes: number, elements: number): boolean {
  if (head.type === 'linear')
    return head.bias?.length === classes && head.weight?.length === classes * elements;
  const { vectors, labels } = head;
  return (
    vectors?.length === labels?.length * elements && labels.every((label) => label >= 0 && label < classes)
  );
}
