/** The epochs of a training: steps, evaluation, checkpoints, and going on from one. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { isPlainObject, show } from '../../../base/checks.js';
import { isTapirError, reasonOf, TapirError } from '../../../base/errors.js';
import { readJson } from '../../../base/read-json.js';
import { firstMisshapen } from '../../../base/shapes.js';
import { checkRecord, RECORD_FILE } from '../runs/checkpoint.js';
import { gatherTexts } from '../ranks/compare-ranks.js';
import { saveAlone, type Trainer } from '../trainer.js';
import type { StepResult, TrainBatch } from '../trainer-calls.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { unusable, type ImageSplit } from './class-folders.js';
import type { TrainFolderSetup } from './train-folder-options.js';
import type { TrainFailure, TrainingPhotos } from './training-photos.js';
import {
  bestEpoch,
  NO_SUMS,
  NOTES_SHAPE,
  type EpochRecord,
  type EpochSums,
  type Score,
  type TrainingNotes,
} from './training-records.js';

/** The parts of a training. */
export interface TrainingParts {
  readonly folder: string;
  readonly options: TrainFolderSetup;
  readonly trainer: Trainer;
  readonly photos: TrainingPhotos;
  readonly split: ImageSplit;
  /** What decides about the weights. */
  readonly settings: Readonly<Record<string, unknown>>;
}

/** A checkpoint of the best epoch so far, in the folder of checkpoints: trained tensors only, which a head has few of. */
export const BEST_FOLDER = 'best';

/** A training between its checkpoints. */
export class TrainingRun {
  readonly #parts: TrainingParts;
  #epochs: EpochRecord[] = [];
  #batches = 0;
  #sums: EpochSums = NO_SUMS;
  #former: readonly TrainFailure[] = [];

  constructor(parts: TrainingParts) {
    this.#parts = parts;
  }

  get epochs(): readonly EpochRecord[] {
    return this.#epochs;
  }

  /** The photos that could not be read, before the training was stopped and after. */
  get failures(): readonly TrainFailure[] {
    const all = [...this.#former, ...this.#parts.photos.failures];
    return [...new Map(all.map((failure) => [failure.path, failure])).values()];
  }

  /** Goes on from the checkpoint, if there is one. Throws `CHECKPOINT_INVALID` if it belongs to other settings. */
  async resume(): Promise<void> {
    const { options, trainer } = this.#parts;
    const { state, epochs, tell, group } = options;
    // Rank 0 alone reads and writes the folder.
    const found = group.rank === 0 ? await this.#findNotes() : undefined;
    const told = await group.broadcast(Buffer.from(JSON.stringify(found ?? null)));
    const notes = JSON.parse(Buffer.from(told).toString()) as TrainingNotes | null;
    if (!notes) return;
    const done = notes.epochs.length;
    await trainer.resume(state);
    this.#epochs = [...notes.epochs];
    this.#batches = notes.batches;
    this.#sums = notes.sums;
    this.#former = notes.failures;
    if (done < epochs) tell({ kind: 'note', text: `resumes in ${this.#place()}` });
    if (options.schedule !== 'none' && notes.planned !== undefined && notes.planned !== epochs)
      tell({ kind: 'warning', text: isReplanned(options.schedule, notes.planned, epochs) });
  }

  /** What the checkpoint says, if this training goes on from it. */
  async #findNotes(): Promise<TrainingNotes | undefined> {
    const { options, settings } = this.#parts;
    const { state, overwrite, epochs } = options;
    const notes = readNotes(state);
    if (!notes) return undefined;
    const other = Object.keys(settings).find(
      (key) => !isDeepStrictEqual(notes.settings[key] ?? null, settings[key]),
    );
    const done = notes.epochs.length;
    if (overwrite && (other !== undefined || done >= epochs)) {
      await rm(join(state, RECORD_FILE), { force: true });
      return undefined;
    }
    if (other !== undefined) throw isOther(state, other, notes.settings[other], settings[other]);
    if (done > epochs) throw isLonger(state, done, epochs);
    return notes;
  }

  /** Trains the epochs that are left. Stopped by the signal, or by the loss of another rank, rank 0 saves a checkpoint first. */
  async run(): Promise<void> {
    const { options, trainer } = this.#parts;
    const { group, state } = options;
    try {
      while (this.#epochs.length < options.epochs) await this.#epoch(this.#epochs.length + 1);
    } catch (error) {
      const isStopped = options.signal?.aborted === true;
      if (isStopped) await group.close('it was stopped');
      if (group.rank === 0 && (isStopped || isTapirError(error, 'RANK_LOST'))) {
        // All ranks have the same weights after each step, and a step that fails changes none.
        await saveAlone(trainer, state, this.#notes());
        const text = `stopped in ${this.#place()}, which is saved in "${options.state}"; run the same training again to resume`;
        options.tell({ kind: 'note', text });
      }
      throw error;
    }
  }

  #place(): string {
    return `epoch ${this.#epochs.length + 1}, step ${this.#batches + 1}`;
  }

  /** The model of the best epoch. The trainer has its weights from then on. */
  async best(): Promise<OnnxModel> {
    const { options, trainer, split } = this.#parts;
    const isLast = split.heldOut.length === 0 || bestEpoch(this.#epochs) === this.#epochs.at(-1);
    if (!isLast) await trainer.resume(join(options.state, BEST_FOLDER));
    return trainer.model();
  }

  async #epoch(epoch: number): Promise<void> {
    await this.#steps(epoch);
    const { options, trainer, photos } = this.#parts;
    const { group } = options;
    const heldOut = await this.#evaluate();
    const { loss, correct, rows, seconds, lr } = this.#sums;
    const training = { loss: loss / rows, accuracy: correct / rows, rows };
    const record: EpochRecord = { epoch, training, heldOut, lr, seconds };
    const epochs = [...this.#epochs, record];
    const isBest = bestEpoch(epochs) === record;
    // Before the checkpoint that says so. Killed between the two, the epoch is trained again, to the same weights.
    if (isBest && heldOut) await trainer.save(join(options.state, BEST_FOLDER), { epoch });
    if (group.size > 1) {
      const told = await gatherTexts(group, JSON.stringify(photos.failures));
      this.#former = [...this.#former, ...told.flatMap((text) => JSON.parse(text) as TrainFailure[])];
    }
    this.#epochs = epochs;
    this.#batches = 0;
    this.#sums = NO_SUMS;
    await trainer.save(options.state, this.#notes());
    options.tell({ kind: 'epoch', record, isBest });
  }

  async #steps(epoch: number): Promise<void> {
    const { folder, options, trainer, photos, split } = this.#parts;
    const { signal, tell, group } = options;
    const steps = photos.countBatches(split.training);
    const batches = photos.epoch(split.training, epoch, this.#batches);
    let since = performance.now();
    for await (const batch of batches) {
      signal?.throwIfAborted();
      const taken = batch || group.size > 1 ? await takeStep(trainer, batch, signal) : null;
      if (taken) {
        const { loss, rows, correct, lr } = taken;
        const now = performance.now();
        const sums = this.#sums;
        this.#sums = {
          loss: sums.loss + loss * rows,
          rows: sums.rows + rows,
          correct: sums.correct + (correct ?? 0),
          seconds: sums.seconds + (now - since) / 1000,
          lr,
        };
        since = now;
        const imagesPerSecond = this.#sums.rows / this.#sums.seconds;
        tell({ kind: 'step', epoch, step: this.#batches + 1, steps, loss, lr, imagesPerSecond });
      }
      this.#batches++;
    }
    if (this.#sums.rows === 0) throw unusable(folder, 'none of its training images can be read');
  }

  async #evaluate(): Promise<Score | null> {
    const { folder, options, trainer, photos, split } = this.#parts;
    if (split.heldOut.length === 0) return null;
    const { signal } = options;
    const evaluating = trainer.evaluate(photos.heldOut(split.heldOut), { signal });
    const { loss, accuracy, rows } = await evaluating.catch((error: unknown) => {
      if (isWithoutRows(error)) throw unusable(folder, 'none of the held-out images can be read');
      throw error;
    });
    if (!Number.isFinite(loss)) throw notFinite(trainer.steps, loss);
    return { loss, accuracy: accuracy!, rows };
  }

  /** What a checkpoint keeps. */
  #notes(): Readonly<Record<keyof TrainingNotes, unknown>> {
    const { options, settings } = this.#parts;
    return {
      settings,
      planned: options.epochs,
      epochs: this.#epochs,
      batches: this.#batches,
      sums: this.#sums,
      failures: this.failures,
    };
  }
}

/** A step of all ranks; null if none of them has a row. */
async function takeStep(
  trainer: Trainer,
  batch: TrainBatch | null,
  signal: AbortSignal | undefined,
): Promise<StepResult | null> {
  try {
    return await trainer.step(batch, { signal });
  } catch (error) {
    if (batch === null && isWithoutRows(error)) return null;
    throw error;
  }
}

/** Whether a step or an evaluation had no rows on any rank. */
function isWithoutRows(error: unknown): boolean {
  return isTapirError(error, 'INPUT_MISMATCH') && ['batch', 'batches'].includes(error.details.input);
}

/** The notes of a checkpoint, before its tensors are read; undefined only if there is no checkpoint. */
function readNotes(state: string): TrainingNotes | undefined {
  const record = readJson(join(state, RECORD_FILE), (reason) =>
    invalid(
      state,
      `${RECORD_FILE} cannot be read (${reason}); make it readable, or give another folder (option "state")`,
    ),
  );
  if (record === undefined) return undefined;
  const notes = factsOf(state, record)['notes'];
  if (!isPlainObject(notes) || !Array.isArray(notes['epochs']))
    throw invalid(state, 'it is no checkpoint of a folder training');
  const flaw = firstMisshapen(notes, NOTES_SHAPE);
  if (flaw !== undefined) throw invalid(state, `"${flaw}" in ${RECORD_FILE} is missing or damaged`);
  // Checked by NOTES_SHAPE.
  return notes as unknown as TrainingNotes;
}

function factsOf(state: string, record: unknown): Readonly<Record<string, unknown>> {
  try {
    return checkRecord(record).facts;
  } catch (error) {
    throw invalid(
      state,
      `${reasonOf(error)}; give another folder (--state), or delete it to train from the start`,
    );
  }
}

function isLonger(state: string, done: number, epochs: number): Error {
  return invalid(
    state,
    `it has trained ${done} epochs, more than ${epochs}; give at least ${done} (option "epochs"), another folder (option "state"), or overwrite it (option "overwrite")`,
  );
}

function isReplanned(schedule: string, planned: number, epochs: number): string {
  return `the learning rate (${schedule}) now follows a training of ${epochs} epochs, but began as one of ${planned}: the result differs from a run that had ${epochs} epochs from the beginning`;
}

function notFinite(step: number, loss: number): TapirError<'LOSS_NOT_FINITE'> {
  return new TapirError(
    'LOSS_NOT_FINITE',
    `the loss of the held-out images is ${loss} after step ${step}; the last checkpoint is of the epoch before. Lower the learning rate, or set clipNorm`,
    { details: { step, value: String(loss) } },
  );
}

function isOther(state: string, key: string, there: unknown, now: unknown): Error {
  return invalid(
    state,
    `it was trained with another "${key}" (${show(there)}, now ${show(now)}); give the former one, another folder (option "state"), or overwrite it (option "overwrite")`,
  );
}

function invalid(path: string, reason: string): TapirError<'CHECKPOINT_INVALID'> {
  return new TapirError('CHECKPOINT_INVALID', `the training in "${path}" cannot be resumed: ${reason}`, {
    details: { path, reason },
  });
}
