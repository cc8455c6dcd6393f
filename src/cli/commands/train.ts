/** `tapir train`: trains a classifier on a folder with a subfolder of photos per class. */
import { addPhotoFlags, type PhotoFlags } from '../flags/photo-flags.js';
import { shown } from '../../base/printable.js';
import { number, optional, type Fields } from '../../base/options.js';
import { Option, type Command } from 'commander';
import { formatShare } from '../../base/html/numbers.js';
import {
  TRAIN_FOLDER_FIELDS,
  type TrainFolderOptions,
} from '../../learn/train/folder/train-folder-options.js';
import { trainFolder, type TrainedFolder } from '../../learn/train/folder/train-folder.js';
import { joinGroup } from '../../learn/train/ranks/join-group.js';
import { GROUP_FIELDS } from '../../learn/train/ranks/local-groups.js';
import type { EpochRecord, TrainEvent } from '../../learn/train/folder/training-records.js';
import {
  OPTIMIZERS,
  type OptimizerKind,
  type OptimizerLike,
} from '../../learn/train/optimizers/optimizer-options.js';
import { openModel } from '../../run/model/open/open-model.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { readDeviceList, readTransformFlag } from '../flags/open-extractor.js';
import { reportLeftOut } from '../terminal/left-out.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';
import { addSettings } from '../flags/settings.js';

interface TrainFlags
  extends
    CommonFlags,
    PhotoFlags,
    Omit<
      TrainFolderOptions,
      'train' | 'optimizer' | keyof PhotoFlags | 'devices' | 'onEvent' | 'signal' | 'group'
    > {
  readonly model: string;
  readonly train?: string;
  readonly optimizer: OptimizerKind;
  readonly lr?: number;
  readonly momentum?: number;
  readonly weightDecay?: number;
  readonly devices: string;
  readonly timeoutMs: number;
}

const OPTIMIZER_FIELDS: Fields<Pick<TrainFlags, 'momentum' | 'weightDecay'>> = {
  momentum: optional(number(0, Infinity, 0, 'of sgd and rmsprop (default: 0.9 for sgd, 0 for rmsprop)')),
  weightDecay: optional(number(0, Infinity, 0, 'as in torch.optim (default: torch’s for the optimizer)')),
};

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('train')
    .description('train a classifier on a folder with a subfolder of photos per class')
    .argument('<folder>', 'folder of class folders: FOLDER/cat/1.jpg')
    .requiredOption('--model <file>', MODEL_HELP)
    .requiredOption('-o, --out <file>', 'ONNX file to write; OUT.html shows the curves')
    .option('--train <names>', 'modules or parameters to train, such as layer4,fc (default: the head)');
  addLearningFlags(command);
  addDataFlags(command);
  command
    .option(
      '--devices <list>',
      'devices over which batches are split: cuda:0,cuda:1, or all for every GPU',
      'cpu',
    )
    .option(rare('--json'), 'print the result as JSON', false)
    .option(rare(YES_FLAG), YES_HELP, false)
    .action((folder: string, flags: TrainFlags) => runTrain(terminal, folder, flags));
  addFlags(command, TRAIN_FOLDER_FIELDS, {
    overwrite: '--overwrite',
  });
  addSettings(command, TRAIN_FOLDER_FIELDS, [
    'schedule',
    'warmup',
    'labelSmoothing',
    'batchNorm',
    'clipNorm',
    'accumulate',
    'seed',
    'decodeThreads',
    'cudaLibraries',
    'state',
    'weights',
    'uneven',
  ]);
  addSettings(command, GROUP_FIELDS, ['timeoutMs'], 'with ranks: ');
  addSettings(command, OPTIMIZER_FIELDS, ['momentum', 'weightDecay']);
}

function addLearningFlags(command: Command): void {
  addFlags(command, TRAIN_FOLDER_FIELDS, { epochs: '--epochs <n>', batch: '--batch <n>' });
  command
    .addOption(new Option('--optimizer <name>', 'as in torch.optim').choices(OPTIMIZERS).default('adam'))
    .option('--lr <x>', 'learning rate (default: torch’s for the optimizer)', Number);
}

function addDataFlags(command: Command): void {
  addFlags(command, TRAIN_FOLDER_FIELDS, {
    augment: '--augment <how>',
    holdout: '--holdout <share>',
    validation: '--val <folder>',
  });
  addPhotoFlags(command, ['transform']);
}

async function runTrain(terminal: Terminal, folder: string, flags: TrainFlags): Promise<void> {
  const devices = readDeviceList(flags.devices);
  const group = await joinGroup({ timeoutMs: flags.timeoutMs });
  const isFirst = group.rank === 0;
  const model = await openModel(await findModelFile(flags.model, terminal, flags.yes));
  const transform = readTransformFlag(terminal, flags, model);
  const view = createTrainView(terminal, flags.epochs);
  // Only rank 0 speaks: all would say the same.
  const trained = await trainFolder(model, folder, {
    ...readFlags(TRAIN_FOLDER_FIELDS, flags),
    train: flags.train?.split(',').map((name) => name.trim()),
    optimizer: readOptimizerFlags(flags),
    transform,
    devices,
    group,
    signal: terminal.signal,
    onEvent: isFirst ? view.show : undefined,
  }).finally(view.end);
  await group.close();
  if (isFirst) report(terminal, trained, flags);
  else terminal.err(`rank ${group.rank} of ${group.size}: done\n`);
}

function readOptimizerFlags({ optimizer: kind, lr, momentum, weightDecay }: TrainFlags): OptimizerLike {
  const usual = kind === 'sgd' ? { momentum: 0.9 } : {};
  const given = Object.entries({ lr, momentum, weightDecay }).filter(([, value]) => value !== undefined);
  return { kind, ...usual, ...Object.fromEntries(given) } as OptimizerLike;
}

function report(terminal: Terminal, trained: TrainedFolder, { json }: TrainFlags): void {
  const { out, page, best, classes, failures } = trained;
  if (json) printJson(terminal, trained);
  else {
    terminal.out(`written: ${shown(out)} (${classes.length} classes, ${describeBest(best)})\n`);
    terminal.out(`written: ${shown(page)}\n`);
  }
  reportLeftOut(terminal, failures);
}

function describeBest({ epoch, training, heldOut }: EpochRecord): string {
  const score = heldOut ? `held-out accuracy ${formatShare(heldOut.accuracy)}` : 'nothing held out';
  return `epoch ${epoch}: ${score}, loss ${(heldOut ?? training).loss.toFixed(4)}`;
}

/** Shows a line per epoch and, on a terminal, one that is rewritten at each step; `end` ends that one. */
function createTrainView(
  terminal: Terminal,
  epochs: number,
): { readonly show: (event: TrainEvent) => void; readonly end: () => void } {
  let isOpen = false;
  const clear = (): void => {
    if (isOpen) terminal.rewrite('');
    isOpen = false;
  };
  return {
    show(event) {
      if (event.kind === 'step') {
        if (!terminal.isTerminal) return;
        const { epoch, step, steps, loss, imagesPerSecond } = event;
        terminal.rewrite(
          `epoch ${epoch}/${epochs}, step ${step}/${steps}: loss ${loss.toFixed(4)}, ${imagesPerSecond.toFixed(1)} images/s`,
        );
        isOpen = true;
        return;
      }
      clear();
      if (event.kind === 'epoch') terminal.err(`${describeEpoch(event.record, epochs, event.isBest)}\n`);
      else terminal.err(`${event.kind === 'warning' ? 'warning: ' : ''}${shown(event.text)}\n`);
    },
    end: clear,
  };
}

/** `epoch 3/10: loss 0.4312, accuracy 88.9 %; held out: loss 0.5120, accuracy 83.3 % (best); 12.3 images/s`. */
function describeEpoch({ epoch, training, heldOut, seconds }: EpochRecord, epochs: number, isBest: boolean) {
  const score = ({ loss, accuracy }: EpochRecord['training']): string =>
    `loss ${loss.toFixed(4)}, accuracy ${formatShare(accuracy)}`;
  const measured = heldOut ? `; held out: ${score(heldOut)}${isBest ? ' (best)' : ''}` : '';
  return `epoch ${epoch}/${epochs}: ${score(training)}${measured}; ${(training.rows / seconds).toFixed(1)} images/s`;
}
