/** Saving a model together with the external weights that it needs. */
import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { reserveFile } from '../base/atomic-file.js';
import { TapirError } from '../base/errors.js';
import { sizeOf, type Chunk } from '../onnx/chunk.js';
import { writeChunks } from '../onnx/emit.js';
import { inlineWeights, repackWeights } from '../onnx/move-weights.js';
import type { ByteSource } from '../onnx/source.js';
import { WireReader } from '../onnx/wire.js';
import { externalTensors } from '../graph/rewrite/describe.js';
import { layOutRewrite, type Naming } from '../graph/rewrite/lay-out.js';
import type { Prepared } from './prepare.js';
import { findWeights } from './session-model.js';

/** Protobuf's limit for a message, and so for an ONNX file. */
const LIMIT_BYTES = 2 ** 31 - 1;

/** Writes a model with its external weights inside. */
export async function saveInlined(
  source: ByteSource,
  { model, rewrite }: Prepared,
  naming: Naming,
  path: string,
): Promise<void> {
  const reader = new WireReader(source);
  const weights = inlineWeights(reader, externalTensors(rewrite.cut), findWeights(model, rewrite)!);
  const chunks = layOutRewrite(rewrite, naming, reader, weights);
  checkSize(chunks, path);
  await writeChunks(source, chunks, path);
}

/** Writes a model, and the external weights that it needs into one file beside it: first those, so that none lack. */
export async function saveRepacked(
  source: ByteSource,
  { model, rewrite }: Prepared,
  naming: Naming,
  path: string,
): Promise<void> {
  const reader = new WireReader(source);
  const location = `${basename(path)}.data`;
  const data = `${path}.data`;
  const tensors = externalTensors(rewrite.cut);
  const moved = repackWeights(reader, tensors, findWeights(model, rewrite)!, location);
  const chunks = layOutRewrite(rewrite, naming, reader, moved.weights);
  // It may hold the weights of another model, of this one even, or be written by another call just now.
  await reserveFile(data);
  try {
    await writeChunks(source, moved.file, data);
    await writeChunks(source, chunks, path);
  } catch (error) {
    await rm(data, { force: true });
    throw error;
  }
}

function checkSize(chunks: readonly Chunk[], path: string): void {
  const bytes = sizeOf(chunks);
  if (bytes <= LIMIT_BYTES) return;
  throw new TapirError(
    'MODEL_TOO_LARGE',
    `"${path}" would have ${bytes} bytes with all weights inside, and an ONNX file holds ${LIMIT_BYTES} at most; repack them into a file beside it`,
    { details: { path, bytes, limitBytes: LIMIT_BYTES } },
  );
}
