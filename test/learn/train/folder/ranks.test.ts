/** Training on a folder over ranks: one result, that of one process, also after a stop. */
import { cpSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTransform, type OnnxModel } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import {
  localGroups,
  trainFolder,
  type ProcessGroup,
  type TrainedFolder,
  type TrainEvent,
} from 'onnx-tapir/train';
import { beforeAll, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';

type Given = Parameters<typeof trainFolder>[2];

let place: string;
let model: OnnxModel;
let photos: string;

beforeAll(async () => {
  place = mkdtempSync(join(scratchFolder(), 'ranks-'));
  model = await createModel('shufflenet_v2_x0_5', { imageSize: 64, seed: 1 });
  photos = join(place, 'photos');
  for (const name of ['dunes', 'forest', 'sea'])
    cpSync(projectPath(`examples/photos/${name}`), join(photos, name), { recursive: true });
  // Of a class, every rank has a share; one photo cannot be read.
  writeFileSync(join(photos, 'sea', 'cut.jpg'), '');
});

const given = (out: string): Given => ({
  out: join(place, out),
  epochs: 2,
  // Not divided by the ranks.
  batch: 5,
  seed: 3,
  holdout: 0.3,
  transform: createTransform({ resize: 64, crop: 64 }),
  decodeThreads: 1,
});

/** Trains on ranks, whose folders are different ones: only rank 0 reads and writes. */
function train(size: number, out: string, of: (group: ProcessGroup) => Partial<Given> = () => ({})) {
  return Promise.allSettled(
    localGroups(size).map((group) => {
      const options = given(group.rank === 0 ? out : `rank-${group.rank}-${out}`);
      return trainFolder(model, photos, { ...options, ...of(group), group });
    }),
  );
}

const valueOf = (one: PromiseSettledResult<TrainedFolder>): TrainedFolder =>
  (one as PromiseFulfilledResult<TrainedFolder>).value;

it('gives the curves of one process, the failures of all ranks, and one file', async () => {
  const one = await trainFolder(model, photos, given('one.onnx'));
  const [first, second] = (await train(2, 'two.onnx')).map(valueOf);
  const curves = ({ epochs }: TrainedFolder) =>
    epochs.map(({ training, heldOut }) => [
      training.rows,
      heldOut!.rows,
      training.accuracy,
      heldOut!.accuracy,
    ]);
  expect(curves(first!)).toEqual(curves(one));
  for (const [i, { training }] of one.epochs.entries())
    expect(Math.abs(first!.epochs[i]!.training.loss / training.loss - 1)).toBeLessThan(1e-5);
  expect(second!.epochs.map(({ training }) => training)).toEqual(
    first!.epochs.map(({ training }) => training),
  );
  expect(first!.failures).toMatchObject([{ path: 'sea/cut.jpg', code: 'IMAGE_EMPTY' }]);
  expect(second!.failures).toEqual(first!.failures);
  expect(existsSync(join(place, 'rank-1-two.onnx'))).toBe(false);
  expect(existsSync(join(place, 'rank-1-two.onnx.training'))).toBe(false);
});

it('saves on rank 0 when a rank is stopped, and goes on to the same bytes', async () => {
  await train(2, 'whole.onnx');
  const abort = new AbortController();
  const notes: string[] = [];
  const ended = await train(2, 'cut.onnx', ({ rank }) => ({
    signal: rank === 1 ? abort.signal : undefined,
    onEvent: (event: TrainEvent) => {
      if (rank === 1 && event.kind === 'step' && event.epoch === 2) abort.abort(new Error('enough'));
      if (rank === 0 && event.kind === 'note') notes.push(event.text);
    },
  }));
  expect(ended).toMatchObject([
    { reason: { code: 'RANK_LOST', details: { rank: 1 } } },
    { reason: { message: 'enough' } },
  ]);
  expect(notes.at(-1)).toMatch(/^stopped in epoch 2, step [23]/);
  await train(2, 'cut.onnx');
  expect(readFileSync(join(place, 'cut.onnx')).equals(readFileSync(join(place, 'whole.onnx')))).toBe(true);
});

it('ends all ranks where one has other photos or options', async () => {
  const ended = await train(2, 'other.onnx', ({ rank }) => ({ seed: rank }));
  expect(ended.map((one) => (one as PromiseRejectedResult).reason)).toMatchObject(
    Array(2).fill({ code: 'RANKS_DIFFER', details: { rank: 1 } }),
  );
});
