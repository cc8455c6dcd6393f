/** A rewrite as a session opens it: its bytes, and the folder of its external weights. */
import { realpathSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { TapirError } from '../base/errors.js';
import { stampOf } from '../base/file-stamp.js';
import { sizeOf, type Chunk } from '../onnx/chunk.js';
import { collectChunks } from '../onnx/emit.js';
import { findExternalFiles, type ExternalFiles } from '../onnx/external-data.js';
import { pointAtWeights, relocateWeights } from '../onnx/move-weights.js';
import type { ByteSource } from '../onnx/source.js';
import { WireReader } from '../onnx/wire.js';
import { externalTensors } from '../graph/rewrite/describe.js';
import { layOutRewrite } from '../graph/rewrite/lay-out.js';
import type { Rewrite } from '../graph/rewrite/rewrite.js';
import { readDevice } from '../runtime/device.js';
import { LANE_DEFAULTS } from '../runtime/lane-options.js';
import type { LaneDescription } from '../runtime/protocol.js';
import { openReplica, type Replica } from '../runtime/replica.js';
import { readSessionOptions, type SessionOptions } from '../runtime/session-options.js';
import { checkRunnable } from './check-runnable.js';
import { identifyFile } from './identify-model.js';
import { bytesOf, repackedWeights } from './mapped-weights.js';
import { stateOf, type OnnxModel } from './open-model.js';

/** What a lane needs to open a rewritten model, without device and session options. */
export function describeModel(
  model: OnnxModel,
  rewrite: Rewrite,
): Promise<Pick<LaneDescription, 'model' | 'externalFolder'>> {
  return withLaidOut(model, rewrite, async (source, chunks, _files, externalFolder) => ({
    model: await collectChunks(source, chunks),
    externalFolder,
  }));
}

/**
 * The same, with weights that the session reads from the model's own file: they need not be copied before, which is a third of the
 * time that it takes to open (docs/decisions/015-mapped-weights.md).
 */
export function describeMapped(
  model: OnnxModel,
  rewrite: Rewrite,
  session: SessionOptions,
): Promise<Pick<LaneDescription, 'model' | 'externalFolder' | 'weightsFile'>> {
  const { file, withSource } = stateOf(model);
  const weights = repackedWeights(rewrite, session);
  if (!file || weights.length === 0 || externalTensors(rewrite.cut).length > 0)
    return describeModel(model, rewrite);
  return withSource(async (source) => {
    // onnxruntime follows no link out of the folder it is given.
    const path = realpathSync(file.path);
    const reader = new WireReader(source);
    const lengths = new Map(weights.map((tensor) => [tensor, bytesOf(tensor)]));
    const pointed = pointAtWeights(reader, lengths, basename(path));
    const chunks = layOutRewrite(rewrite, 'tensors', reader, pointed);
    const bytes = await collectChunks(source, chunks);
    return { model: bytes, externalFolder: dirname(path), weightsFile: { ...file, path } };
  });
}

/**
 * What identifies the content of a rewritten model, and its size: the file that it was made of, what was made of it in ranges of that,
 * and its external files, which are only looked up.
 */
export async function identifyRewrite(
  model: OnnxModel,
  rewrite: Rewrite,
): Promise<{ readonly identity: string; readonly bytes: number }> {
  const content = await contentOf(model);
  return withLaidOut(model, rewrite, (_source, chunks, files) => {
    const weights = [...(files?.pathOf ?? [])].map(([location, path]) => {
      const stats = statSync(path);
      return { size: stats.size, stamp: [location, path, stampOf(stats)].join(':') };
    });
    const stamps = weights.map(({ stamp }) => stamp);
    return {
      identity: JSON.stringify([content, chunks.map(describeChunk), ...stamps]),
      bytes: weights.reduce((sum, { size }) => sum + size, sizeOf(chunks)),
    };
  });
}

/** A file that was written less long ago may be written again within one tick of its file system's clock. */
const SETTLED_MS = 10_000;

/** What tells the content of a model: where its file is and when it was last touched in any way, or its hash. */
async function contentOf(model: OnnxModel): Promise<unknown> {
  const { file } = stateOf(model);
  const stats = file && statSync(file.path, { throwIfNoEntry: false });
  if (stats && stampOf(stats) === file.stamp) {
    const { ctimeMs, mtimeMs } = stats;
    if (Date.now() - Math.max(ctimeMs, mtimeMs) > SETTLED_MS) return [file.path, file.stamp, ctimeMs];
  }
  return (await identifyFile(model)).sha256;
}

function describeChunk(chunk: Chunk): unknown {
  return chunk instanceof Uint8Array ? Buffer.from(chunk).toString('base64') : chunk;
}

/** Runs a step on the pieces of a rewritten model as a session opens it. */
function withLaidOut<Result>(
  model: OnnxModel,
  rewrite: Rewrite,
  step: (
    source: ByteSource,
    chunks: readonly Chunk[],
    files: ExternalFiles | undefined,
    externalFolder: string | undefined,
  ) => Result | Promise<Result>,
): Promise<Result> {
  const { folder, withSource } = stateOf(model);
  return withSource((source) => {
    const files = findWeights(model, rewrite);
    const reader = new WireReader(source);
    // onnxruntime refuses links out of the folder it is given, so it is given the folder in which the files really lie.
    const isElsewhere = files && files.folder !== realpathSync(folder!);
    const weights = isElsewhere ? relocateWeights(reader, externalTensors(rewrite.cut), files) : undefined;
    const chunks = layOutRewrite(rewrite, 'tensors', reader, weights);
    return step(source, chunks, files, files && (isElsewhere ? files.folder : folder));
  });
}

/** The files with external weights: checked to exist and to lie in the model's folder; undefined if there are none. */
export function findWeights(model: OnnxModel, { cut }: Rewrite): ExternalFiles | undefined {
  const tensors = externalTensors(cut);
  const [first] = tensors;
  const { folder } = stateOf(model);
  if (!first) return undefined;
  if (folder !== undefined) return findExternalFiles(tensors, folder);
  const reason = 'the model was opened from bytes, so its folder is unknown';
  throw new TapirError(
    'EXTERNAL_DATA_UNSAFE',
    `the weights of "${first.name}" lie in "${first.location}", but ${reason}; open it by path`,
    { details: { location: first.location, tensor: first.name, reason } },
  );
}

/** Opens a rewritten model on the CPU, with the values of the file bit for bit: to ask for types, to compare. */
export async function openExact(
  model: OnnxModel,
  rewrite: Rewrite,
  { graphOptimizationLevel = 'disabled' }: { readonly graphOptimizationLevel?: 'disabled' | 'all' } = {},
): Promise<Replica> {
  const device = readDevice('device', 'cpu');
  const session = readSessionOptions({ graphOptimizationLevel });
  checkRunnable(rewrite, device);
  return openReplica({ device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'remove' }, async () => ({
    ...(await describeModel(model, rewrite)),
    device,
    session,
  }));
}
