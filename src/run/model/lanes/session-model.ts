/** A rewritten model as a session opens it: its bytes, and the folder of its external weights. */
import { createHash } from 'node:crypto';
import { realpathSync, statSync } from 'node:fs';
import { stampOf } from '../../../base/file-stamp.js';
import { sizeOf, type Chunk } from '../../../onnx/file/wire/chunk.js';
import { collectChunks } from '../../../onnx/file/emit.js';
import { findExternalFiles, type ExternalFiles } from '../../../onnx/file/external-data.js';
import { relocateWeights } from '../../../onnx/file/move-weights.js';
import type { ByteSource } from '../../../onnx/file/wire/source.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { externalTensors } from '../../../onnx/graph/rewrite/describe.js';
import { layOutRewrite, type Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { LaneOptions } from '../../runtime/lanes/lane-options.js';
import type { LaneDescription } from '../../runtime/lanes/protocol.js';
import type { SessionOptions } from '../../runtime/lanes/session-options.js';
import { listHostNodes } from '../open/check-runnable.js';
import { identifyFile } from '../prune/identify-model.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';

/** How sessions of a model are opened on any device. */
export interface SessionSetup {
  readonly session: SessionOptions;
  readonly lane: LaneOptions;
}

/** Describes a lane. If its model does not open, it is called again with the failure. */
export type DescribeLane = (failure?: unknown) => Promise<LaneDescription>;

/** The part of a lane's description that depends on the model alone. */
export type ModelDescription = Pick<
  LaneDescription,
  'model' | 'externalFolder' | 'weightsFile' | 'offsetsAt' | 'hostNodes'
>;

/** Describes a rewritten model to a lane. With the naming `keys`, the bytes are those of the saved file. */
export function describeModel(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming = 'tensors',
): Promise<ModelDescription> {
  const hostNodes = listHostNodes(rewrite);
  return withLaidOut(model, rewrite, naming, async ({ source, chunks, externalFolder }) => ({
    model: await collectChunks(source, chunks),
    externalFolder,
    hostNodes,
  }));
}

/**
 * Identifies the content of a rewritten model, and measures it. The identity consists of the source file, the ranges of it and the
 * new bytes that make up the model, and the stamps of its external files, which are not read.
 */
export async function identifyRewrite(
  model: OnnxModel,
  rewrite: Rewrite,
): Promise<{ readonly identity: string; readonly bytes: number }> {
  const content = await contentOf(model);
  return withLaidOut(model, rewrite, 'tensors', ({ chunks, files }) => {
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

/** A file that was written more recently may be written again within one tick of its file system's clock. */
const SETTLED_MS = 10_000;

/** Identifies the content of a source model: by the place and the times of its file, or by its hash if the file is too recent. */
async function contentOf(model: OnnxModel): Promise<unknown> {
  const { file } = modelInternals.of(model);
  const stats = file && statSync(file.path, { throwIfNoEntry: false });
  if (stats && stampOf(stats) === file.stamp) {
    const { ctimeMs, mtimeMs } = stats;
    if (Date.now() - Math.max(ctimeMs, mtimeMs) > SETTLED_MS) return [file.path, file.stamp, ctimeMs];
  }
  return (await identifyFile(model)).sha256;
}

/** Longer pieces are identified by their hash. */
const MOST_BYTES_IN_TEXT = 65_536;

function describeChunk(chunk: Chunk): unknown {
  if (!(chunk instanceof Uint8Array)) return chunk;
  // Converted weights are large.
  const isLarge = chunk.byteLength > MOST_BYTES_IN_TEXT;
  return isLarge ? createHash('sha256').update(chunk).digest('hex') : Buffer.from(chunk).toString('base64');
}

/** The pieces of a rewritten model as a session opens it. */
interface LaidOutModel {
  readonly source: ByteSource;
  readonly chunks: readonly Chunk[];
  readonly files: ExternalFiles | undefined;
  readonly externalFolder: string | undefined;
}

/** Runs a step on the pieces of a rewritten model. */
function withLaidOut<Result>(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
  step: (laidOut: LaidOutModel) => Result | Promise<Result>,
): Promise<Result> {
  const { folder, withSource } = modelInternals.of(model);
  return withSource((source) => {
    const tensors = externalTensors(rewrite);
    const files = findExternalFiles(tensors, folder);
    const reader = new WireReader(source);
    // onnxruntime refuses links out of the given folder. So it gets the folder where the files really are.
    const isElsewhere = files && files.folder !== realpathSync(folder!);
    const weights = isElsewhere ? relocateWeights(reader, tensors, files) : undefined;
    const chunks = layOutRewrite(rewrite, naming, reader, weights);
    return step({ source, chunks, files, externalFolder: files && (isElsewhere ? files.folder : folder) });
  });
}
