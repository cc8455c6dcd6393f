/** A rewritten model as a session opens it: its bytes, and the folder of its external weights. */
import { createHash } from 'node:crypto';
import { realpathSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { stampOf } from '../../base/file-stamp.js';
import { sizeOf, type Chunk } from '../../onnx/wire/chunk.js';
import { collectChunks } from '../../onnx/emit.js';
import { findExternalFiles, type ExternalFiles } from '../../onnx/external-data.js';
import { pointAtWeights, relocateWeights } from '../../onnx/move-weights.js';
import type { ByteSource } from '../../onnx/wire/source.js';
import { WireReader } from '../../onnx/wire/wire.js';
import { writeEntry } from '../../onnx/wire/write-model.js';
import { externalTensors } from '../../graph/rewrite/describe.js';
import { layOutRewrite, type Naming } from '../../graph/rewrite/lay-out.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import type { LaneOptions } from '../../runtime/lanes/lane-options.js';
import { ADDRESS_DIGITS, type LaneDescription } from '../../runtime/lanes/protocol.js';
import type { SessionOptions } from '../../runtime/lanes/session-options.js';
import { listHostNodes } from '../open/check-runnable.js';
import { identifyFile } from '../prune/identify-model.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import type { Node, Value } from '../../graph/graph.js';
import type { ScannedTensor } from '../../onnx/scan/scan-value.js';
import { ELEMENT_TYPE, TENSOR } from '../../onnx/wire/schema.js';

/** How sessions of a model are opened on any device. */
export interface SessionSetup {
  readonly session: SessionOptions;
  readonly lane: LaneOptions;
}

/** Describes a lane. If its model does not open, it is called again with the failure. */
export type DescribeLane = (failure?: unknown) => Promise<LaneDescription>;

/** The part of a lane's description that depends on the model alone. */
type ModelDescription = Pick<
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
 * Describes a rewritten model whose session reads weights from the file of the source model. Copying them first would take a
 * third of the time that a session needs to open (docs/decisions/015-mapped-weights.md).
 */
export function describeMapped(
  model: OnnxModel,
  rewrite: Rewrite,
  session: SessionOptions,
): Promise<ModelDescription> {
  return describePointed(model, rewrite, repackedWeights(rewrite, session), (path) => ({
    // onnxruntime refuses a link that leads out of the given folder.
    location: basename(path),
    externalFolder: dirname(path),
  }));
}

/** The location by which OpenVINO takes an offset as an address in memory. ONNX Runtime's provider for it hands weights over so. */
const IN_MEMORY = '*/_ORT_MEM_ADDR_/*';

/**
 * Describes a rewritten model to OpenVINO: the lane maps the file of the source model, and the library copies the weights from there.
 * Reading them as a part of the model takes five times as long (docs/decisions/025-openvino.md).
 */
export async function describeInMemory(model: OnnxModel, rewrite: Rewrite): Promise<ModelDescription> {
  const weights = plainWeights(rewrite).map(({ initializer }) => initializer);
  const described = await describePointed(model, rewrite, weights, () => ({
    location: IN_MEMORY,
    externalFolder: undefined,
    digits: ADDRESS_DIGITS,
  }));
  return described.weightsFile ? { ...described, offsetsAt: findOffsets(described.model) } : described;
}

/** Where the digits of the offsets of {@link IN_MEMORY} begin. */
function findOffsets(bytes: Uint8Array): number[] {
  const model = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entries = [
    ...writeEntry(TENSOR.externalData, 'location', IN_MEMORY),
    ...writeEntry(TENSOR.externalData, 'offset', '0'.repeat(ADDRESS_DIGITS)),
  ];
  const before = Buffer.concat(entries).subarray(0, -ADDRESS_DIGITS);
  const found: number[] = [];
  for (let at = model.indexOf(before); at >= 0; at = model.indexOf(before, at + before.length))
    found.push(at + before.length);
  return found;
}

/** Describes a model whose session reads some weights from the source model's file. */
function describePointed(
  model: OnnxModel,
  rewrite: Rewrite,
  weights: readonly ScannedTensor[],
  place: (path: string) => {
    readonly location: string;
    readonly externalFolder: string | undefined;
    readonly digits?: number;
  },
): Promise<ModelDescription> {
  const { file, withSource } = modelInternals.of(model);
  if (!file || weights.length === 0 || externalTensors(rewrite).length > 0)
    return describeModel(model, rewrite);
  return withSource(async (source) => {
    const path = realpathSync(file.path);
    const { location, externalFolder, digits } = place(path);
    const reader = new WireReader(source);
    const lengths = new Map(weights.map((tensor) => [tensor, bytesOf(tensor)]));
    const chunks = layOutRewrite(
      rewrite,
      'tensors',
      reader,
      pointAtWeights(reader, lengths, location, digits),
    );
    return {
      model: await collectChunks(source, chunks),
      externalFolder,
      weightsFile: { ...file, path },
      hostNodes: listHostNodes(rewrite),
    };
  });
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

/** Smaller weights travel with the model: mapping a file costs a page and a call. */
const LEAST_BYTES = 16 * 1024;
/** onnxruntime lays the filters of a convolution out in blocks if their sizes are multiples of this. */
const BLOCK = 16;

/**
 * The weights that onnxruntime converts while it opens a model, and so no longer reads from the file: packed matrices, and filters
 * in blocks. Other weights would stay mapped, and writing to the file later would change results or crash the process.
 *
 * @returns Initializers with four bytes per element; whether their bytes lie in the file in one piece is not known here.
 */
function repackedWeights(rewrite: Rewrite, session: SessionOptions): ScannedTensor[] {
  const { cut, outputs } = rewrite;
  const { graphOptimizationLevel: level, extra } = session;
  // The user decides how weights are laid out.
  if (level === 'disabled' || /prepack|external_initializers/.test(JSON.stringify(extra))) return [];
  const isInBlocks = process.arch === 'x64' && (level === 'all' || level === 'layout');
  const given = new Set(outputs.map(({ value }) => value));
  return plainWeights(rewrite).flatMap(({ value, initializer }) => {
    // A weight that can be fed is not constant.
    if (value.input || value.producer || given.has(value)) return [];
    const uses = value.uses.filter((node) => cut.nodes.has(node));
    const [use, ...others] = uses;
    if (!use || others.length > 0 || !isItsWeight(value, use)) return [];
    return isRepacked(use, initializer, isInBlocks) ? [initializer] : [];
  });
}

/** The weights in float32 that are worth a place of their own in memory. */
function plainWeights({
  cut,
  retyped,
}: Rewrite): { readonly value: Value; readonly initializer: ScannedTensor }[] {
  return [...cut.values].flatMap((value) => {
    const { initializer } = value;
    if (initializer?.elemType !== ELEMENT_TYPE.float32 || initializer.external || initializer.parts)
      return [];
    return retyped.has(initializer) || bytesOf(initializer) < LEAST_BYTES ? [] : [{ value, initializer }];
  });
}

export function bytesOf({ dims }: ScannedTensor): number {
  return dims.reduce((product, size) => product * size, Float32Array.BYTES_PER_ELEMENT);
}

/** Whether a value is the second input of a node, and nothing else of it. */
function isItsWeight(value: Value, { inputs, scanned }: Node): boolean {
  const isOnce = inputs.filter((input) => input === value).length === 1;
  return inputs[1] === value && isOnce && scanned.bodies === undefined;
}

function isRepacked({ domain, opType, inputs }: Node, { dims }: ScannedTensor, isInBlocks: boolean): boolean {
  if (domain !== '') return false;
  if (opType === 'MatMul' || opType === 'Gemm') return dims.length === 2 && dims.every((size) => size > 1);
  if (opType !== 'Conv' || !isInBlocks || dims.length !== 4) return false;
  const [filters, channels] = dims as [number, number];
  return filters % BLOCK === 0 && channels % BLOCK === 0 && inputs.length <= 3;
}
