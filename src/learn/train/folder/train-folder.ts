/** A folder of images by class → a classifier: an ONNX file with its labels, and a page with its curves. */
import { chooseModelTransform } from '../../../photos/feeds/model-transform.js';
import { basename, join } from 'node:path';
import { digestOf } from '../../../base/digest.js';
import { removeLeftovers, writeAtomically } from '../../../base/atomic-file.js';
import { invalidOption, pickFields, type Options } from '../../../base/checks.js';
import { lockFolder, writeWithCompanion, type FolderLock } from '../../../base/folder-lock.js';
import { makeFolder } from '../../../base/make-folder.js';
import { withClassLabels } from '../../../extract/class-labels.js';
import { PLACE_FIELDS } from '../../../extract/replicas/place-options.js';
import { createTrainer } from '../create-trainer.js';
import type { Trainer } from '../trainer.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import { identifyFile } from '../../../run/model/prune/identify-model.js';
import { encodeModelSettings, settingsPath } from '../../../run/model/open/model-settings.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import { readModel, type ModelSource, type OnnxModel } from '../../../run/model/open/open-model.js';
import { readSave } from '../../../run/model/open/save-whole.js';
import { namedDevices } from '../../../run/runtime/devices/device-list.js';
import { deviceName, readDevices } from '../../../run/runtime/lanes/device.js';
import { checkReplaceable } from '../../../base/html/check-replaceable.js';
import { compareFacts, leaveOnFailure } from '../ranks/compare-ranks.js';
import { countBatches, type Shares } from './rank-photos.js';
import { holdOut, readClassFolders, type ImageSplit } from './class-folders.js';
import { checkLogits, fitHead } from './head.js';
import { judgePhotos } from './judge-photos.js';
import { renderTraining, type ClassCount } from './render-training.js';
import {
  readTrainFolderOptions,
  scheduleOf,
  type TrainFolderOptions,
  type TrainFolderSetup,
} from './train-folder-options.js';
import { TrainingPhotos, type TrainFailure } from './training-photos.js';
import { bestEpoch, type EpochRecord } from './training-records.js';
import { BEST_FOLDER, TrainingRun, type TrainingParts } from './training-run.js';

/** A finished training. */
export interface TrainedFolder {
  /** The written ONNX file, whose metadata holds the names of the classes (`labels`). */
  readonly out: string;
  /** The page with the curves. */
  readonly page: string;
  /** Names of the classes, in the order of the outputs. */
  readonly classes: readonly string[];
  readonly epochs: readonly EpochRecord[];
  /** The epoch whose weights were written: of highest held-out accuracy, then of lowest held-out loss. */
  readonly best: EpochRecord;
  /** Names of the trained parameters. */
  readonly parameters: readonly string[];
  /** Photos that could not be read. */
  readonly failures: readonly TrainFailure[];
}

/**
 * Trains a classifier on a folder with a subfolder of photos per class, as torchvision's ImageFolder has it.
 *
 * @param from - A model, or where to open one. It does not change. With another number of outputs than classes, its last linear layer is
 * replaced by a new one; a model that ends in features gets one on them.
 * @param folder - The folder of classes: `FOLDER/cat/1.jpg`. Classes are in the order of the bytes of their names.
 * @param given - See {@link TrainFolderOptions}; `out` is required.
 * @returns What was written, and how each epoch went.
 * @throws {@link TapirError} `SOURCE_INVALID` for a folder without class folders; `OPTION_INVALID`; `OUTPUT_EXISTS`; `OUTPUT_LOCKED` if
 * another process trains there; `CHECKPOINT_INVALID` if the state cannot be read, belongs to a training with other settings, or has more epochs; those of
 * {@link createTrainer} and {@link Trainer.step}.
 *
 * @remarks A checkpoint is saved after each epoch, and when `signal` fires. The same call then goes on where it stopped, in the middle of an
 * epoch as well: on the CPU, the weights are those of an uninterrupted training, bit for bit. Photos that cannot be read are left out.
 *
 * @example
 * ```ts
 * import { trainFolder } from 'onnx-tapir/train';
 *
 * const { best, classes } = await trainFolder('resnet50.onnx', 'photos', { out: 'tuned.onnx', train: ['layer4', 'fc'], epochs: 5 });
 * console.log(classes, best.heldOut?.accuracy); // ['cat', 'dog'] 0.95
 * ```
 */
export async function trainFolder(
  from: OnnxModel | ModelSource,
  folder: string,
  given: Options<TrainFolderOptions> & Pick<TrainFolderOptions, 'out'>,
): Promise<TrainedFolder> {
  const asked = readTrainFolderOptions(given);
  return await leaveOnFailure(asked.group, () => trainOnFolder(from, folder, asked));
}

async function trainOnFolder(
  from: OnnxModel | ModelSource,
  folder: string,
  asked: TrainFolderSetup,
): Promise<TrainedFolder> {
  const { group } = asked;
  const options = { ...asked, devices: await namedDevices(asked.devices) };
  const source = readModel(from);
  if (group.rank === 0) await checkOutputs(source, options);
  const data = await readImages(folder, options);
  const { model, train } = await fitModel(source, data.classes.length, options);
  const transform = chooseModelTransform(options.transform, source);
  await using photos = new TrainingPhotos(model, {
    transform,
    shares: sharesOf(options),
    threads: options.decodeThreads,
    isAugmented: options.augment !== 'none',
    seed: options.seed,
  });
  await using lock = group.rank === 0 ? await lockState(options.state) : undefined;
  void lock;
  await using trainer = await openTrainer(model, train, data, options);
  const settings = await settingsOf(source, data, { ...options, train }, transform);
  await compareFacts(group, settings);
  const run = new TrainingRun({ folder, options, trainer, photos, split: data.split, settings });
  await run.resume();
  await run.run();
  // Awaited here: the trainer closes after it.
  return await finish(run, { data, options, trainer, transform, settings });
}

function sharesOf({ group: { rank, size }, uneven, batch }: TrainFolderSetup): Shares {
  return { rank, size, uneven, batch };
}

/** Images by class, split. */
interface TrainingData {
  readonly classes: readonly string[];
  readonly split: ImageSplit;
}

async function readImages(folder: string, options: TrainFolderSetup): Promise<TrainingData> {
  const { holdout, validation, seed, tell } = options;
  const found = await readClassFolders(folder);
  const held = holdOut(found, holdout, seed);
  const measured = validation === undefined ? null : await readClassFolders(validation, found.classes);
  for (const text of [...found.warnings, ...held.warnings, ...(measured?.warnings ?? [])])
    tell({ kind: 'warning', text });
  return { classes: found.classes, split: { ...held, heldOut: measured?.images ?? held.heldOut } };
}

/** Gives the model a head for the classes, and finds out what is trained. */
async function fitModel(source: OnnxModel, classes: number, { train, seed, tell }: TrainFolderSetup) {
  checkLogits(source);
  const { model, head, note } = await fitHead(source, classes, seed);
  if (note !== null) tell({ kind: 'note', text: note });
  if (train === undefined && !head)
    throw invalidOption('train', 'names of modules: the model does not end with a linear layer', train);
  return { model, train: train ?? head!.name };
}

/** Refuses before the work what could not be written after it. */
async function checkOutputs(model: OnnxModel, { out, overwrite }: TrainFolderSetup): Promise<void> {
  readSave(modelInternals.of(model), out, [], [], { overwrite });
  await checkReplaceable(pageOf(out), 'train');
}

function pageOf(out: string): string {
  return `${out}.html`;
}

async function lockState(state: string): Promise<FolderLock> {
  await makeFolder(state);
  const lock = await lockFolder(state);
  // A kill in each of many runs would leave a file of weights each.
  for (const folder of [state, join(state, BEST_FOLDER)]) await removeLeftovers(folder, 0);
  return lock;
}

function openTrainer(
  model: OnnxModel,
  train: string | readonly string[],
  { split: { training } }: TrainingData,
  options: TrainFolderSetup,
): Promise<Trainer> {
  const { batchNorm, clipNorm, accumulate, group } = options;
  const { signal: _, ...place } = pickFields(options, PLACE_FIELDS);
  return createTrainer(model, {
    ...place,
    loss: { kind: 'cross-entropy', labelSmoothing: options.labelSmoothing },
    optimizer: options.optimizer,
    parameters: train,
    schedule: scheduleOf(options, countBatches(training.length, sharesOf(options))),
    batchNorm,
    clipNorm,
    accumulate,
    group,
  });
}

/** The options that decide about the weights. */
const DECIDING = [
  'train',
  'batch',
  'optimizer',
  'schedule',
  'warmup',
  'labelSmoothing',
  'batchNorm',
  'clipNorm',
  'accumulate',
  'augment',
  'holdout',
  'seed',
] as const satisfies readonly (keyof TrainFolderSetup)[];

/** What decides about the weights. Devices do not: a training may go on elsewhere. */
async function settingsOf(
  model: OnnxModel,
  { classes, split }: TrainingData,
  options: TrainFolderSetup,
  transform: Transform,
): Promise<Readonly<Record<string, unknown>>> {
  const paths = [split.training, split.heldOut].map((images) => images.map(({ path }) => path));
  const plain = {
    model: (await identifyFile(model)).sha256,
    images: digestOf(JSON.stringify(paths)),
    classes,
    transform: transform.options,
    uneven: options.uneven === 'keep' ? null : `${options.uneven}, ${options.group.size} ranks`,
    ...Object.fromEntries(DECIDING.map((name) => [name, options[name] ?? null])),
  };
  // As a checkpoint gives it back.
  return JSON.parse(JSON.stringify(plain)) as Record<string, unknown>;
}

interface Finished extends Pick<TrainingParts, 'options' | 'trainer' | 'settings'> {
  readonly data: TrainingData;
  readonly transform: Transform;
}

/** Writes, on rank 0, the log, the page, the model's own file and, last, the model. */
async function finish(run: TrainingRun, parts: Finished): Promise<TrainedFolder> {
  const { data, options, trainer, transform, settings } = parts;
  const { out, weights, overwrite, state } = options;
  const { classes, split } = data;
  const { epochs, failures } = run;
  const { parameters } = trainer;
  const best = bestEpoch(epochs)!;
  const page = pageOf(out);
  const trained = { out, page, classes, epochs, best, parameters, failures };
  const model = await run.best();
  if (options.group.rank !== 0) return trained;
  const planned = { ...settings, epochs: options.epochs };
  const log = { classes, settings: planned, parameters, epochs, best: best.epoch, failures };
  await writeAtomically(join(state, 'log.json'), toJson(log));
  const told = {
    ...planned,
    model: `SHA-256 ${String(settings['model'])}`,
    images: `SHA-256 of their paths ${String(settings['images'])}`,
    parameters,
    devices: readDevices('devices', options.devices).map(deviceName).join(', '),
  };
  const labelled = await withClassLabels(model, classes);
  const judge = () => judgePhotos(labelled, split.heldOut, classes.length, transform, options.signal);
  const judgement = split.heldOut.length === 0 ? null : await judge();
  const shown = { classes: countClasses(data), epochs, best, settings: told, failures, judgement };
  await writeAtomically(page, await renderTraining({ title: basename(out), ...shown }));
  const save = (): Promise<void> => labelled.save(out, { weights, overwrite });
  // Whether it may be replaced was found out before the training, by the model itself.
  const own = encodeModelSettings({ transform: { ...transform.options }, labels: classes });
  await writeWithCompanion(settingsPath(out), own, true, save);
  return trained;
}

function countClasses({ classes, split }: TrainingData): ClassCount[] {
  return classes.map((name, label) => ({
    name,
    training: split.training.filter((image) => image.label === label).length,
    heldOut: split.heldOut.filter((image) => image.label === label).length,
  }));
}

function toJson(value: unknown): Uint8Array {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
}
