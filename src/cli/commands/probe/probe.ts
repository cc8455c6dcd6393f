/** `tapir probe`: trains a classifier on the vectors of a dataset, and puts it into the model. */
import { shown } from '../../../base/printable.js';
import type { Command } from 'commander';
import { attachProbe } from '../../../products/features/probe/attach-probe.js';
import type { Probe } from '../../../products/features/probe/probe.js';
import { encodeProbe, saveProbe } from '../../../products/features/probe/probe-file.js';
import {
  trainProbe,
  TRAIN_PROBE_FIELDS,
  type TrainProbeOptions,
} from '../../../products/features/probe/train-probe.js';
import { writeWithCompanion } from '../../../base/folder-lock.js';
import { invalidOption } from '../../../base/checks.js';
import { openDataset, type Dataset } from '../../../datasets/files/dataset.js';
import { readRecordedModel } from '../../../datasets/embed/recorded-model.js';
import { makeTransform } from '../../../photos/images/transform/transform.js';
import { checkAbsent } from '../../../base/atomic-file.js';
import { findModelFile, YES_FLAG, YES_HELP } from '../../flags/find-model.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { saveWithSettings, settingsFor } from '../../flags/save-flags.js';
import { describeProbe } from './probe-text.js';
import { runZeroShot, type ZeroShotFlags } from './zero-shot.js';
import { withProgressLine } from '../../terminal/progress-view.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';
import { addSettings } from '../../flags/settings.js';

/** The flags that are options of `trainProbe`. */
const FLAGS = {
  kind: '--kind <name>',
  where: '--where <label>',
  key: rare('--output <key>'),
} as const;
const SETTINGS = ['strength', 'classWeights', 'normalize', 'neighbours', 'folds', 'seed'] as const;

interface ProbeFlags
  extends ZeroShotFlags, Pick<TrainProbeOptions, keyof typeof FLAGS | (typeof SETTINGS)[number]> {
  readonly save?: string;
  readonly attach?: string;
  readonly out?: string;
  readonly overwrite: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('probe')
    .description(
      'train a classifier on the vectors of a dataset, from labels that you have; show confusions and suspected labels. Without labels: --zero-shot; to name the classes of new photos: "tapir classify"',
    )
    .argument('<dataset>', 'folder that "tapir embed" has written')
    .option(
      '--labels <source>',
      'required, except with --zero-shot: by-folder (the first folder of each path), by-last-folder, column:NAME of the metadata, or a .csv, .tsv or .parquet file with the columns path and label',
    )
    .action((folder: string, flags: ProbeFlags) => runProbe(terminal, folder, flags));
  addSettings(command, TRAIN_PROBE_FIELDS, SETTINGS);
  addFlags(command, TRAIN_PROBE_FIELDS, FLAGS)
    .option('--save <file>', 'write the probe with its results, for "tapir report --probe"')
    .option(
      '--attach <model>',
      'the ONNX file that made the dataset: write it with the probe inside; needs -o',
    )
    .option(
      '--zero-shot <file>',
      'train nothing: give every image of the dataset one of these labels (a line each), with CLIP or SigLIP',
    )
    .option(
      '--templates <file>',
      'sentences with {} for the label, one per line (default: "a photo of a {}.")',
    )
    .option(
      '--model <file>',
      'with --zero-shot: the ONNX file that made the dataset, with its text tower beside it',
    )
    .option(
      rare('--text-model <file>'),
      'with --zero-shot: the text tower, if it does not lie beside the model',
    )
    .option('-o, --out <file>', 'ONNX file to write: image tensor in, probabilities out')
    .option('--overwrite', 'replace files that exist', false)
    .option(rare(YES_FLAG), YES_HELP, false)
    .option('--json', 'print the results as JSON', false);
}

async function runProbe(terminal: Terminal, folder: string, flags: ProbeFlags): Promise<void> {
  const { labels, attach, out, save, overwrite, zeroShot } = flags;
  if (zeroShot !== undefined) {
    const extra = save ?? attach ?? out ?? flags.where;
    if (extra !== undefined)
      throw invalidOption('--zero-shot', 'given without --save, --attach, --out and --where', extra);
    return runZeroShot(terminal, folder, zeroShot, flags);
  }
  if (labels === undefined) throw invalidOption('--labels', 'given, or --zero-shot', labels);
  if ((attach === undefined) !== (out === undefined))
    throw invalidOption('--out', 'given together with --attach', out);
  // Found before the training, not after it. The files before the last one may be those of a killed run.
  const last = out ?? save;
  if (last !== undefined && !overwrite) checkAbsent(last);
  const model = attach === undefined ? undefined : await findModelFile(attach, terminal, flags.yes);
  const dataset = await openDataset(folder);
  const probe = await withProgressLine(terminal, (watch) =>
    trainProbe(dataset, labels, { ...readFlags(TRAIN_PROBE_FIELDS, flags), ...watch }),
  );
  if (model !== undefined && out !== undefined)
    await writeClassifier(model, dataset, probe, { ...flags, out });
  else if (save !== undefined) await saveProbe(probe, save, { overwrite });
  print(terminal, probe, flags);
}

/** Writes the probe if it is asked for, the model's own file, and then the model with the probe inside. */
async function writeClassifier(
  model: string,
  dataset: Dataset,
  probe: Probe,
  { save, out, overwrite }: ProbeFlags & { readonly out: string },
): Promise<void> {
  const classifier = await attachProbe(model, probe);
  const { transform } = readRecordedModel(dataset);
  const settings = {
    ...settingsFor(makeTransform(transform), model, ['dynamicBatch']),
    labels: probe.classes,
  };
  const saveModel = (): Promise<void> => classifier.save(out, { overwrite });
  const saveBoth = (): Promise<void> => saveWithSettings(out, settings, overwrite, saveModel);
  await (save === undefined ? saveBoth() : writeWithCompanion(save, encodeProbe(probe), overwrite, saveBoth));
}

function print(terminal: Terminal, probe: Probe, { json, save, out }: ProbeFlags): void {
  if (json) {
    const { head: _head, ...facts } = probe;
    printJson(terminal, { ...facts, written: { probe: save ?? null, model: out ?? null } });
    return;
  }
  for (const warning of probe.warnings) terminal.err(`note: ${shown(warning)}\n`);
  terminal.out(describeProbe(probe, terminal.columns));
  for (const file of [save, out]) if (file !== undefined) terminal.out(`written: ${shown(file)}\n`);
}
