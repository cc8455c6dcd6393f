/** `tapir models bn`: re-estimates BatchNorm statistics, and merges what several processes have measured. */
import { addPhotoFlags, type PhotoFlags } from '../../flags/photo-flags.js';
import { shown } from '../../../base/printable.js';
import type { Command } from 'commander';
import {
  ESTIMATE_BATCH_NORM_FIELDS,
  estimateBatchNorm,
  measureMoments,
  mergeBatchNorm,
} from '../../../learn/train/statistics/estimate-batch-norm.js';
import { writeAtomically } from '../../../base/atomic-file.js';
import { checkText, invalidOption, type Options } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { writeWithCompanion } from '../../../base/folder-lock.js';
import { readJson } from '../../../base/read-json.js';
import type { FoldedOptions } from '../../../learn/train/statistics/estimate-options.js';
import type { BatchNormEstimate } from '../../../learn/train/statistics/estimate-statistics.js';
import { MODES, type BatchNormMode } from '../../../learn/train/statistics/modes.js';
import type { Momentum } from '../../../learn/train/statistics/channel-moments.js';
import type { BatchNormMoments } from '../../../learn/train/statistics/saved-moments.js';
import { openModel } from '../../../run/model/open/open-model.js';
import { readStateDict } from '../../../learn/parameters/dicts/read-state-dict.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../../flags/find-model.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { readDeviceList, readTransformFlag } from '../../flags/open-extractor.js';
import { addSaveFlags } from '../../flags/save-flags.js';
import { reportLeftOut } from '../../terminal/left-out.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';
import { LOAD_FIELDS } from '../../../learn/parameters/load-state-dict.js';
import { optional, type Fields } from '../../../base/options.js';
import { addSettings } from '../../flags/settings.js';
import { checkTarget, SAVE_FIELDS, type SaveOptions } from '../../../run/model/open/save-whole.js';

/** Flags that estimating and merging share. */
interface WriteFlags extends CommonFlags, SaveOptions {
  readonly out?: string;
  readonly moments?: string;
  readonly state?: string;
  readonly reference?: string;
  readonly prefix?: string;
  readonly epsilon?: number;
}

interface BnFlags extends WriteFlags, PhotoFlags {
  readonly mode?: BatchNormMode;
  readonly momentum?: Momentum;
  readonly devices: string;
  readonly cudaLibraries?: string;
  readonly batch: number;
  readonly decodeThreads: number;
  readonly memoryBytes: number;
  readonly sourceMoments?: string;
}

const SOURCE_FIELDS: Fields<Pick<BnFlags, 'sourceMoments'>> = {
  sourceMoments: optional(
    checkText,
    'file with moments of the training data, for a folded model without state dict',
  ),
};

export function addCommand(models: Command, terminal: Terminal): void {
  // So that "bn merge" has its own flags.
  models.parent!.enablePositionalOptions();
  const bn = models
    .enablePositionalOptions()
    .command('bn')
    .description('re-estimate BatchNorm statistics from photos of the domain that the model is used in')
    .argument('<model>', MODEL_HELP)
    .argument('<photos>', 'folder, list, archive or pattern of images')
    .enablePositionalOptions()
    .option(
      '--momentum <x>',
      'weight of the latest batch, or "cumulative" (default: each layer’s)',
      (text): Momentum => (text === 'cumulative' ? text : Number(text)),
    )
    .option(
      '--devices <list>',
      'devices over which batches are split: cuda:0,cuda:1, or all for every GPU',
      'cpu',
    )
    .action((model: string, photos: string, flags: BnFlags) => runBn(terminal, model, photos, flags));
  addFlags(bn, ESTIMATE_BATCH_NORM_FIELDS, {
    mode: '--mode <mode>',
    batch: '--batch <n>',
  });
  addPhotoFlags(bn, ['transform']);
  addSettings(bn, SOURCE_FIELDS, ['sourceMoments']);
  addSettings(bn, ESTIMATE_BATCH_NORM_FIELDS, ['cudaLibraries', 'decodeThreads', 'memoryBytes']);
  addWriteFlags(bn);
  const merge = bn
    .command('merge')
    .description('add up the moments of several processes (modes adabn and precise)')
    .argument('<model>', MODEL_HELP)
    .argument('<moments...>', 'files that "tapir models bn --moments" has written')
    .action((model: string, moments: string[], flags: WriteFlags) =>
      runMerge(terminal, model, moments, flags),
    );
  addWriteFlags(merge);
}

function addWriteFlags(command: Command): void {
  addSettings(command, LOAD_FIELDS, ['prefix', 'epsilon']);
  addSaveFlags(command)
    .option('-o, --out <file>', 'ONNX file to write')
    .option('--moments <file>', 'JSON file to write: count, mean and variance of each layer')
    .option('--state <file>', 'state dict of the present weights, for a model with folded norms')
    .option(rare('--reference <file>'), 'state dict of the present weights, if --state has other ones')
    .option(rare('--json'), 'print the statistics as JSON', false)
    .option(rare(YES_FLAG), YES_HELP, false);
}

async function runBn(terminal: Terminal, path: string, photos: string, flags: BnFlags): Promise<void> {
  checkOutputs(path, flags);
  const { mode, momentum, moments, cudaLibraries, batch, decodeThreads, memoryBytes } = flags;
  if (mode === undefined && (flags.out !== undefined || moments === undefined))
    throw invalidOption(
      '--mode',
      `one of ${MODES.join(', ')}; it is left out only to write --moments without -o`,
      mode,
    );
  const devices = readDeviceList(flags.devices);
  const model = await openModel(await findModelFile(path, terminal, flags.yes));
  const transform = readTransformFlag(terminal, flags, model);
  const { signal } = terminal;
  const common = { devices, cudaLibraries, batch, transform, decodeThreads, signal };
  if (mode === undefined) {
    const measured = await measureMoments(model, photos, common);
    // Checked above.
    await writeMoments(moments!, measured.moments);
    terminal.out(`written: ${shown(moments!)} (moments of ${measured.moments.layers.length} layers)\n`);
    reportLeftOut(terminal, measured.failures);
    return;
  }
  const sourceMoments = flags.sourceMoments === undefined ? undefined : readMoments(flags.sourceMoments);
  const estimate = await estimateBatchNorm(model, photos, {
    ...common,
    ...(await readFoldedFlags(flags)),
    mode,
    momentum,
    memoryBytes,
    sourceMoments,
  });
  await report(terminal, estimate, flags);
  reportLeftOut(terminal, estimate.failures);
}

async function runMerge(
  terminal: Terminal,
  path: string,
  files: readonly string[],
  flags: WriteFlags,
): Promise<void> {
  checkOutputs(path, flags);
  const model = await findModelFile(path, terminal, flags.yes);
  const moments = files.map(readMoments);
  await report(terminal, await mergeBatchNorm(model, moments, await readFoldedFlags(flags)), flags);
}

/** Refuses before the work what could not be written after it. Throws `OPTION_INVALID`, `OUTPUT_EXISTS`, `OUTPUT_UNWRITABLE`. */
function checkOutputs(model: string, flags: WriteFlags): void {
  const { out, moments, json } = flags;
  const saving = readFlags(SAVE_FIELDS, flags);
  const last = out ?? moments;
  if (out === undefined && moments === undefined && !json)
    throw invalidOption('--out', 'given, or --moments, or --json: nothing would be kept', out);
  // Moments beside a model come first, and may be those of a killed run.
  if (last !== undefined) checkTarget(last, model, saving);
}

async function readFoldedFlags(flags: WriteFlags): Promise<Options<FoldedOptions>> {
  const { prefix, epsilon } = flags;
  const state = flags.state === undefined ? undefined : await readStateDict(flags.state);
  const reference = flags.reference === undefined ? undefined : await readStateDict(flags.reference);
  return { state, reference, prefix, epsilon };
}

async function report(
  terminal: Terminal,
  { model, layers, moments }: BatchNormEstimate,
  flags: WriteFlags,
): Promise<void> {
  const { out, moments: file, json } = flags;
  const saving = readFlags(SAVE_FIELDS, flags);
  if (out === undefined && file !== undefined) await writeMoments(file, moments);
  else if (out !== undefined) {
    const save = (): Promise<void> => model.save(out, saving);
    await (file === undefined
      ? save()
      : writeWithCompanion(file, encodeMoments(moments), saving.overwrite, save));
  }
  if (json) {
    const plain = layers.map(({ name, count, ...layer }) => {
      return { name, count, mean: Array.from(layer.mean), variance: Array.from(layer.variance) };
    });
    return printJson(terminal, { mode: moments.mode, layers: plain });
  }
  const [first] = layers;
  const seen = `${layers.length} norms, mode ${moments.mode}; ${shown(first!.name)} saw ${first!.count} values per channel`;
  if (out !== undefined) terminal.out(`written: ${shown(out)} (${seen})\n`);
  if (file !== undefined) terminal.out(`written: ${shown(file)} (moments of ${layers.length} layers)\n`);
}

function writeMoments(path: string, moments: BatchNormMoments): Promise<void> {
  return writeAtomically(path, encodeMoments(moments));
}

function encodeMoments(moments: BatchNormMoments): Uint8Array {
  return Buffer.from(`${JSON.stringify(moments)}\n`);
}

/** What a file of moments holds; {@link estimateBatchNorm} checks it. */
function readMoments(path: string): BatchNormMoments {
  const refuse = (why: string, cause?: unknown): Error => {
    const reason = `"${path}" cannot be read: ${why}`;
    return new TapirError('MOMENTS_INVALID', `the moments cannot be used: ${reason}`, {
      details: { reason },
      cause,
    });
  };
  const moments = readJson(path, refuse);
  if (moments === undefined) throw refuse('there is no such file');
  return moments as BatchNormMoments;
}
