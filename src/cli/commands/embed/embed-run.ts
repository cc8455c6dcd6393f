/** The beginning and the end of both kinds of `tapir embed`. */
import type { PhotoFlags } from '../../flags/photo-flags.js';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { JOURNAL_FILE } from '../../../datasets/files/file-names.js';
import { hasFewImages } from '../../measure/few-images.js';
import { settleForm } from '../../flags/form-flags.js';
import { SHARED_SCALES } from '../../../onnx/graph/rewrite/describe.js';
import { shown } from '../../../base/printable.js';
import { hashing } from '../../../datasets/embed/embed-batches.js';
import type { EmbedFailure } from '../../../datasets/embed/embed-folder.js';
import type { EmbedFolderOptions } from '../../../datasets/embed/embed-folder-options.js';
import type { EmbedRowsOptions } from '../../../datasets/streams/embed-rows.js';
import type { FeatureFormat } from '../../../datasets/formats/feature-files.js';
import type { RowFormat } from '../../../datasets/streams/row-output.js';
import type { Extractor } from '../../../extract/extractor.js';
import { identifyFile } from '../../../run/model/prune/identify-model.js';
import { openModel } from '../../../run/model/open/open-model.js';
import { DecodeLanes } from '../../../photos/images/lanes/decode-lanes.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import { findModelFile } from '../../flags/find-model.js';
import {
  openExtractor,
  readCutInputs,
  readDeviceFlags,
  readTransformFlag,
  sayFeedNotes,
  type ExtractorFlags,
  type SettledFlags,
} from '../../flags/open-extractor.js';
import type { ShardFlag } from '../../flags/shard-flag.js';
import { describeUnread, type UnreadCounts } from '../../../datasets/sources/items/unread-files.js';
import type { Terminal } from '../../terminal/terminal.js';

export interface EmbedFlags
  extends
    ExtractorFlags,
    Omit<
      EmbedFolderOptions,
      | keyof PhotoFlags
      | 'tiles'
      | 'clips'
      | 'format'
      | 'choice'
      | 'shard'
      | 'shardSeconds'
      | 'signal'
      | 'onProgress'
    >,
    Pick<EmbedRowsOptions, 'inputFormat' | 'maxWaitMs'> {
  /** The default depends on where it goes. */
  readonly format?: FeatureFormat | RowFormat;
  readonly metricsPort: number | undefined;
  readonly shard: ShardFlag | undefined;
  readonly json: boolean;
}

export interface OpenedRun {
  readonly extractor: Extractor;
  /** The model in float32, for the comparison of the first images of a new dataset in bfloat16: both compile side by side. */
  readonly exact: Promise<Extractor> | undefined;
  /** Decoding threads, already started. */
  readonly lanes: DecodeLanes;
  readonly transform: Transform;
}

/** Number of failures that the terminal lists. */
export const FAILURES_SHOWN = 20;

/** Opens the extractor that the flags describe, and its decoding threads. */
export async function openRun(terminal: Terminal, source: string, given: EmbedFlags): Promise<OpenedRun> {
  const hasFew = hasFewImages(source);
  const path = await findModelFile(given.model, terminal, given.yes);
  const model = await openModel(path);
  const inputs = await readCutInputs(given, model);
  const transform = readTransformFlag(terminal, given, model, inputs);
  const flags = settleForm(terminal, given, model, readDeviceFlags(given));
  // Meanwhile the session opens.
  const lanes = new DecodeLanes(transform, 1, {
    checksum: hashing({ checksum: flags.checksum, isKept: flags.out !== '-' }),
  });
  lanes.warm();
  const few = await hasFew;
  const opening = openExtractor(model, flags, transform, few);
  const exact = isCompared(flags)
    ? openExtractor(model, { ...flags, precision: 'float32', isOwnForm: false }, transform, few)
    : undefined;
  // It is thrown where the model is needed.
  exact?.catch(() => undefined);
  // For the manifest, in the meantime too; a failure shows again there.
  if (flags.out !== '-') void identifyFile(model).catch(() => undefined);
  const extractor = await opening;
  sayFeedNotes(terminal, extractor, transform);
  const { batch, notes } = extractor.model.plan;
  if (notes.includes(SHARED_SCALES)) terminal.err(`warning: ${SHARED_SCALES}\n`);
  if (batch?.mode === 'per-sample')
    terminal.err(`note: the batch stays ${batch.exported}, because ${batch.reason}\n`);
  return { extractor, exact, lanes, transform };
}

/** Whether a run begins with a comparison with float32, as far as the flags show. A run that turns out to need it opens the model then. */
function isCompared(flags: SettledFlags & EmbedFlags): boolean {
  const { precision, pipeline, out, shard } = flags;
  if (precision !== 'bfloat16' || pipeline || out === '-' || shard) return false;
  return readDeviceFlags(flags).length === 1 && !existsSync(join(out, JOURNAL_FILE));
}

export function reportFailures(
  terminal: Terminal,
  failures: readonly EmbedFailure[],
  failed: number,
  embedded: number,
  inputs: string,
  whereAll: string,
): void {
  if (failed === 0) return;
  terminal.err(`${failed} of ${embedded} ${inputs} could not be embedded:\n`);
  for (const { path, error } of failures.slice(0, FAILURES_SHOWN))
    terminal.err(`  ${shown(path ?? '(bytes)')}: ${shown(error.details.reason)} [${error.code}]\n`);
  if (failed > FAILURES_SHOWN) terminal.err(`  … ${whereAll}\n`);
}

/** Names the files that look like images and were not read. */
export function reportUnread(terminal: Terminal, counts: UnreadCounts): void {
  for (const line of describeUnread(counts)) terminal.err(`${line}\n`);
}
