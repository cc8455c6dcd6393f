/** Checkpoints of training: tensors and facts that always belong together, whenever the process that writes them is killed. */
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { removeLeftovers, writeAtomically } from '../../../base/atomic-file.js';
import { digestFile, digestOf } from '../../../base/digest.js';
import { invalidOption, isPlainObject, show } from '../../../base/checks.js';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { makeFolder } from '../../../base/make-folder.js';
import { readStateDict } from '../../parameters/dicts/read-state-dict.js';
import { writeStateDict } from '../../parameters/dicts/write-state-dict.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';

/** What a checkpoint holds. */
export interface Checkpoint {
  /** One tensor or more by name, in the order of the file. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** What JSON can express: texts, finite numbers, booleans, null, lists and objects. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/** The content of `checkpoint.json`. */
interface CheckpointRecord {
  readonly format: typeof FORMAT;
  readonly tensors: { readonly file: string; readonly sha256: string };
  readonly facts: Readonly<Record<string, unknown>>;
  /** SHA-256 of the facts as JSON. Missing in checkpoints that were written before it was recorded. */
  readonly factsSha256?: string;
}

const FORMAT = 'onnx-tapir checkpoint 1';
export const RECORD_FILE = 'checkpoint.json';
/** A file of tensors. */
const TENSOR_FILE = /^tensors-([0-9]{1,15})\.safetensors$/;

/**
 * Writes a checkpoint into a folder, and replaces the former one.
 *
 * @param folder - Created if it does not exist. One process at a time may write here.
 *
 * @remarks The tensors are written to `tensors-<n>.safetensors` under a new number and brought to disk. Then `checkpoint.json`, which
 * states this file and its SHA-256, is replaced in one step. Then older files of tensors are removed. A kill or a power failure at
 * any moment leaves the former checkpoint or the new one, whole; so the folder needs space for two.
 *
 * @throws {@link TapirError} `OUTPUT_UNWRITABLE`; `OPTION_INVALID` for no tensors, or for facts that JSON cannot express.
 */
export async function writeCheckpoint(folder: string, { tensors, facts }: Checkpoint): Promise<void> {
  checkFacts(facts, 'facts');
  await makeFolder(folder);
  // A kill in each of many runs would leave a file of weights each.
  await removeLeftovers(folder, 0, process.pid);
  const numbers = (await readdir(folder)).map((name) => Number(TENSOR_FILE.exec(name)?.[1] ?? 0));
  const file = `tensors-${1 + Math.max(0, ...numbers)}.safetensors`;
  const path = join(folder, file);
  await writeStateDict(path, tensors);
  const sha256 = await digestFile(path);
  const record: CheckpointRecord = {
    format: FORMAT,
    tensors: { file, sha256 },
    facts,
    factsSha256: digestOf(JSON.stringify(facts)),
  };
  await writeAtomically(join(folder, RECORD_FILE), Buffer.from(`${JSON.stringify(record, null, 2)}\n`));
  await removeOthers(folder, file);
}

/**
 * Reads the checkpoint of a folder.
 *
 * @returns The tensors, in memory, and the facts.
 * @throws {@link TapirError} `CHECKPOINT_INVALID` if the folder has no checkpoint, if it is damaged, or if another version has written it.
 */
export async function readCheckpoint(folder: string): Promise<Checkpoint> {
  try {
    const { tensors, facts } = checkRecord(parseJson(await readFile(join(folder, RECORD_FILE), 'utf8')));
    const path = join(folder, tensors.file);
    const sha256 = await digestFile(path);
    if (sha256 !== tensors.sha256)
      throw new Error(`the SHA-256 of ${tensors.file} is ${sha256}, not ${tensors.sha256}: it is damaged`);
    const read = new Map<string, Tensor>();
    for (const [name, tensor] of await readStateDict(path)) read.set(name, await tensor.read());
    return { tensors: read, facts };
  } catch (error) {
    throw invalidCheckpoint(folder, error);
  }
}

function invalidCheckpoint(path: string, error: unknown): TapirError<'CHECKPOINT_INVALID'> {
  const isAbsent = (error as NodeJS.ErrnoException).code === 'ENOENT';
  const reason = isAbsent ? `there is no whole checkpoint (${reasonOf(error)})` : reasonOf(error);
  return new TapirError('CHECKPOINT_INVALID', `cannot read the checkpoint "${path}": ${reason}`, {
    details: { path, reason },
    cause: error,
  });
}

/** Checks a record. Throws Error with the reason. */
export function checkRecord(record: unknown): CheckpointRecord {
  if (!isPlainObject(record)) throw new Error(`${RECORD_FILE} is not a JSON object`);
  const { format, tensors, facts, factsSha256 } = record;
  if (format !== FORMAT)
    throw new Error(`the format in ${RECORD_FILE} is ${show(format)}; this version reads "${FORMAT}"`);
  if (!isPlainObject(tensors) || !isPlainObject(facts))
    throw new Error(`${RECORD_FILE} lacks tensors or facts`);
  const { file, sha256 } = tensors;
  // Any other name could lead out of the folder.
  if (typeof file !== 'string' || !TENSOR_FILE.test(file))
    throw new Error(`the file of tensors in ${RECORD_FILE} is ${show(file)}`);
  if (typeof sha256 !== 'string') throw new Error(`${RECORD_FILE} lacks the SHA-256 of the tensors`);
  if (factsSha256 !== undefined && factsSha256 !== digestOf(JSON.stringify(facts)))
    throw new Error(`the facts in ${RECORD_FILE} are not those that were written: it is damaged`);
  return { format, tensors: { file, sha256 }, facts };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${RECORD_FILE} is not JSON`, { cause: error });
  }
}

/** An object that holds itself has no end. */
const MOST_DEPTH = 64;

/** JSON turns NaN into null and leaves functions out: a checkpoint would not give back what it was given. */
function checkFacts(value: unknown, path: string, depth = 0): void {
  if (depth > MOST_DEPTH) throw invalidOption('facts', `nested at most ${MOST_DEPTH} levels deep`, value);
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return;
  if (typeof value === 'number' && Number.isFinite(value)) return;
  if (Array.isArray(value)) {
    for (const [place, inner] of value.entries()) checkFacts(inner, `${path}[${place}]`, depth + 1);
  } else if (isPlainObject(value)) {
    for (const [key, inner] of Object.entries(value)) checkFacts(inner, `${path}.${key}`, depth + 1);
  } else throw invalidOption(path, 'what JSON can express', value);
}

/** Removes the tensors of former checkpoints. What cannot be removed is left to the next write. */
async function removeOthers(folder: string, file: string): Promise<void> {
  for (const name of await readdir(folder))
    if (TENSOR_FILE.test(name) && name !== file)
      await rm(join(folder, name), { force: true }).catch(() => undefined);
}
