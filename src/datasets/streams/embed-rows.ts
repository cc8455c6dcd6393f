/** Images → rows as a stream of bytes, which `tapir embed --out -` writes. */
import { PhotoMemory } from '../../photos/feeds/photo-memory.js';
import { describeParts, recordTransform } from '../embed/describe-run.js';
import { partsOf } from '../records/dataset-identity.js';
import { invalidOption, type Options } from '../../base/checks.js';
import { callback, oneOf, readOptions, type Fields } from '../../base/options.js';
import { packageVersion } from '../../base/package.js';
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import { photoFields } from '../../photos/feeds/photo-options.js';
import type { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import { loadArrow } from '../formats/library.js';
import { type EmbeddedBatch, openDecodeLanes, runPhotos } from '../embed/embed-batches.js';
import { writtenDims } from '../embed/written-features.js';
import { EMBED_FIELDS, type EmbedSetup, type EmbedOptions, setUpEmbedding } from '../embed/embed-options.js';
import { embedRecords } from './embed-records.js';
import { EMBED_FOLDER_FIELDS, type EmbedFolderOptions } from '../embed/embed-folder-options.js';
import { checkFailures, readFailureLimit } from '../embed/failure-limit.js';
import { ProgressMeter, type EmbedProgress } from '../embed/progress.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import type { UnreadCounts } from '../sources/items/unread-files.js';
import { openSource } from '../sources/open-source.js';
import { MAX_WAIT, ONE_BY_ONE, type EmbedStreamOptions } from './row-pipe.js';
import { ArrowRows } from './arrow-rows.js';
import { JsonlRows } from './jsonl-rows.js';
import { openRecords } from '../sources/records/open-records.js';
import {
  INPUT_FORMATS,
  NOTHING,
  type Carried,
  type InputFormat,
  type RecordInput,
  type SourceRecord,
} from '../sources/records/source-record.js';
import {
  checkKeys,
  ROW_FORMATS,
  rowShape,
  type RowEncoder,
  type RowFormat,
  type RowShape,
} from './row-output.js';
import { TapirError } from '../../base/errors.js';
import { elementCount, type DType, type Tensor } from '../../onnx/tensor/tensor.js';
import { storedTensor, storedType } from '../files/stored-tensor.js';

/** Options of {@link embedRows}. */
export interface EmbedRowsOptions
  extends
    EmbedOptions,
    Pick<EmbedFolderOptions, 'dtype' | 'maxFailures'>,
    Pick<EmbedStreamOptions, 'maxWaitMs'> {
  /** Format of the rows. */
  readonly format: RowFormat;
  /** Format of a stream of images. */
  readonly inputFormat: InputFormat;
  /** Called after each batch. */
  readonly onBatch: ((batch: EmbeddedBatch, progress: EmbedProgress) => void) | undefined;
  /** Called at the end with the number of files that look like images and are not read, by extension. */
  readonly onUnread: ((counts: UnreadCounts) => void) | undefined;
}

export const EMBED_ROWS_FIELDS: Fields<EmbedRowsOptions> = {
  ...EMBED_FIELDS,
  clips: photoFields({ clips: ONE_BY_ONE }).clips,
  format: oneOf(ROW_FORMATS, 'jsonl', 'of the rows'),
  dtype: EMBED_FOLDER_FIELDS.dtype,
  inputFormat: oneOf(
    INPUT_FORMATS,
    'auto',
    'format of standard input: a path per line, a JSON object per line, an Arrow stream, a tar; auto checks the first bytes, and knows no tar',
  ),
  maxWaitMs: MAX_WAIT,
  maxFailures: EMBED_FOLDER_FIELDS.maxFailures,
  onBatch: callback(),
  onUnread: callback(),
};

/**
 * Embeds images into a stream of rows: one row per input, or per tile or crop of it, in input order. An image that cannot be read
 * is a row with an error.
 *
 * @param source - A location as for `embedImages`, or a stream of bytes with a record per image ({@link openRecords}). The rows
 * carry the other fields or columns of the records.
 * @param warm - Decoding threads for the transform, if they have been started already.
 * @returns The bytes of each finished batch. A chunk is valid until the next one is requested.
 * @throws {@link TapirError} Those of `embedImages`, after the rows before; `SOURCE_INVALID` for a carried field that has the
 * name of an output, or that the format cannot hold; `TOO_MANY_FAILURES`.
 */
export async function* embedRows(
  extractor: Extractor,
  source: string | AsyncIterable<Uint8Array>,
  given: Options<EmbedRowsOptions>,
  warm?: DecodeLanes,
): AsyncGenerator<Uint8Array> {
  const options = readOptions(EMBED_ROWS_FIELDS, given, 'embedRows');
  const { maxWaitMs } = options;
  const setup = { ...setUpEmbedding(extractor, { ...options }), isKept: true };
  const half = options.dtype === 'float16';
  const limit = readFailureLimit(options.maxFailures);
  // Rows state no digest of a photo.
  await using lanes = openDecodeLanes(extractor, { ...setup, isKept: false }, warm);
  const input = await openInput(source, options, setup);
  const columns = await describeColumns(extractor, setup, half);
  const shape = rowShape(options.format, partsOf(describeParts(setup)), columns);
  checkKeys(shape);
  const encoder = await createEncoder(options.format, input, shape, setup);
  const meter = new ProgressMeter(extractor);
  yield* encoder.begin();
  // A source on disk does not pause: its batches are cut by position.
  const maxWait = typeof source === 'string' ? undefined : maxWaitMs;
  for await (const batch of embedRecords(extractor, input.records, setup, lanes, maxWait)) {
    yield* encoder.encode({ ...batch, features: storedFeatures(batch.features, columns, half) });
    meter.add(batch);
    options.onBatch?.(batch, meter.progress(0, null));
    checkFailures(limit, meter, false);
  }
  yield* encoder.finish();
  checkFailures(limit, meter, true);
}

async function openInput(
  source: string | AsyncIterable<Uint8Array>,
  { inputFormat, onUnread }: EmbedRowsOptions,
  { source: options, signal }: EmbedSetup,
): Promise<RecordInput> {
  // Whoever sends images one by one goes on after a URL that may not be fetched.
  const each = { ...options, isUrlRow: true } as const;
  const isTar = inputFormat === 'tar';
  if (typeof source !== 'string' && !isTar)
    return openRecords(source, 'standard input', inputFormat, each, signal);
  const name = typeof source === 'string' ? source : 'standard input';
  const items = openSource(
    typeof source === 'string' ? source : { paths: source, format: 'tar' },
    options,
    signal,
  );
  async function* records(): AsyncGenerator<SourceRecord<Carried>> {
    for await (const item of items)
      yield { item, extra: item.columns ? { kind: 'json', line: undefined, fields: item.columns } : NOTHING };
    onUnread?.(items.unread);
  }
  // What a list says about its images is carried as JSON is.
  const format = items.description.kind === 'list' ? 'jsonl' : 'paths';
  return { format, name, records: records() };
}

async function createEncoder(
  format: RowFormat,
  input: RecordInput,
  shape: RowShape,
  { transform }: EmbedSetup,
): Promise<RowEncoder> {
  const metadata = new Map([
    ['onnx-tapir.version', packageVersion()],
    ['onnx-tapir.transform', JSON.stringify(recordTransform(transform))],
  ]);
  if (format === 'arrow') return new ArrowRows(input, shape, await loadArrow(), metadata);
  return new JsonlRows(input, shape, input.format === 'arrow' ? await loadArrow() : undefined);
}

/**
 * Describes the columns of an extractor's outputs. If the model does not state all sizes, runs a black image to find them.
 *
 * @param half - Write float32 outputs as float16.
 * @throws {@link TapirError} `OPTION_INVALID` for an output of strings; those of `run`.
 */
async function describeColumns(
  extractor: Extractor,
  setup: EmbedSetup,
  half: boolean,
): Promise<readonly FeatureColumn[]> {
  let known = extractorInternals.of(extractor).model.kept.map(({ name, dtype, dims }) => ({
    key: name,
    dtype,
    dims: dims && writtenDims(dims, setup).slice(1),
  }));
  if (known.some(({ dtype, dims }) => dtype === null || !isStatic(dims))) {
    const features = await runPhotos(extractor, new PhotoMemory(setup.feeds, 1), [0], setup);
    known = Object.entries(features).map(([key, { dtype, dims }]) => ({ key, dtype, dims: dims.slice(1) }));
  }
  return known.map((column) => {
    const dtype = storedType(column.dtype as DType, half);
    if (dtype === 'string')
      throw invalidOption('returnNodes', 'made of numeric outputs to write them', dtype);
    const dims = column.dims as readonly number[];
    return { key: column.key, dtype, dims, elements: elementCount(dims) };
  });
}

function isStatic(dims: readonly unknown[] | null): boolean {
  return dims !== null && dims.every((size) => typeof size === 'number');
}

/** Converts the features of a batch to the form that is written. Throws `OUTPUT_NOT_BATCHED` if the rows do not match the columns. */
function storedFeatures(
  features: Readonly<Record<string, Tensor>>,
  columns: readonly FeatureColumn[],
  half: boolean,
): Readonly<Record<string, Tensor>> {
  const stored: Record<string, Tensor> = {};
  for (const { key, dtype, dims } of columns) {
    const tensor = features[key];
    if (!tensor) continue;
    stored[key] = storedTensor(key, tensor, half);
    if (stored[key].dtype === dtype && tensor.dims.slice(1).join() === dims.join()) continue;
    throw new TapirError(
      'OUTPUT_NOT_BATCHED',
      `output "${key}" has rows of [${tensor.dims.slice(1).join(', ')}] ${tensor.dtype} instead of [${dims.join(', ')}] ${dtype}; ask for a tensor with a row per photo, or cut pictures into tiles of one size (option "tiles")`,
      { details: { output: key, dims: tensor.dims, rows: tensor.dims[0]! } },
    );
  }
  return stored;
}
