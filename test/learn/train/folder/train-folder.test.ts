/** Training on folders of drawn pictures, with a small network. */
import {
  cpSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createTransform, findTransform, openModel, type OnnxModel } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { trainFolder, type TrainedFolder, type TrainEvent } from 'onnx-tapir/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { readClassLabels } from '../../../../src/extract/class-labels.js';
import { openModel as openOwn } from '../../../../src/run/model/open/open-model.js';
import { fixturePath, projectPath, scratchFolder } from '../../../support/fixtures.js';

const transform = createTransform({ resize: 64, crop: 64 });
const SEED = 3;

type Given = Parameters<typeof trainFolder>[2];

let place: string;
let model: OnnxModel;
let photos: string;

beforeAll(async () => {
  place = mkdtempSync(join(scratchFolder(), 'train-'));
  model = await createModel('shufflenet_v2_x0_5', { imageSize: 64, seed: 1 });
  photos = folderOf('dunes', 'forest', 'sea');
});

/** A folder with some of the example's classes. */
function folderOf(...classes: readonly string[]): string {
  const folder = mkdtempSync(join(place, 'photos-'));
  for (const name of classes)
    cpSync(projectPath(`examples/photos/${name}`), join(folder, name), { recursive: true });
  return folder;
}

let outputs = 0;

/** Options for a new output. */
function optionsFor(given: Partial<Given> = {}): Given {
  const out = join(place, `out-${outputs++}.onnx`);
  return { out, epochs: 3, batch: 4, seed: SEED, transform, decodeThreads: 1, ...given };
}

function train(given: Partial<Given> = {}, folder = photos): Promise<TrainedFolder> {
  return trainFolder(model, folder, optionsFor(given));
}

/** Stops a training when an event comes, and returns why it ended. */
async function stopAt(isTime: (event: TrainEvent) => boolean, given: Given): Promise<unknown> {
  const abort = new AbortController();
  const onEvent = (event: TrainEvent): void => {
    if (isTime(event)) abort.abort(new Error('enough'));
  };
  return trainFolder(model, photos, { ...given, signal: abort.signal, onEvent }).catch(
    (error: unknown) => error,
  );
}

describe('trainFolder', () => {
  it('writes a model with labels, its preprocessing, a page and a log', async () => {
    const events: TrainEvent[] = [];
    const options = optionsFor({ epochs: 4, augment: 'none', onEvent: (event) => events.push(event) });
    const trained = await trainFolder(model, photos, options);
    expect(trained).toMatchObject({
      out: options.out,
      page: `${options.out}.html`,
      classes: ['dunes', 'forest', 'sea'],
      parameters: ['fc.weight', 'fc.bias'],
      failures: [],
    });
    const written = openOwn(options.out);
    expect((await written).outputs[0]!.dims).toEqual(['batch', 3]);
    expect(await readClassLabels(await written)).toEqual({ labels: ['dunes', 'forest', 'sea'] });
    expect((await findTransform(options.out))?.transform.options).toEqual(transform.options);
    const page = readFileSync(trained.page, 'utf8');
    expect(page).toMatch(/^<!doctype html>\n<!-- onnx-tapir train -->/);
    expect(page.match(/<polyline/g)).toHaveLength(4);
    expect(page).not.toMatch(/NaN|undefined/);
    const log = JSON.parse(readFileSync(`${options.out}.training/log.json`, 'utf8')) as TrainedFolder;
    expect(log.epochs).toEqual(trained.epochs);
    expect(trained.epochs.map(({ epoch, training }) => [epoch, training.rows])).toEqual([
      [1, 9],
      [2, 9],
      [3, 9],
      [4, 9],
    ]);
    expect(trained.epochs.at(-1)!.training.loss).toBeLessThan(trained.epochs[0]!.training.loss);
    expect(events[0]).toEqual({
      kind: 'note',
      text: '"fc" gets 3 outputs in place of 1000, and starts from scratch',
    });
    expect(events.filter(({ kind }) => kind === 'epoch')).toHaveLength(4);
    expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(12);
  });

  it('keeps what is frozen, bit for bit, and trains the rest', async () => {
    const { out } = await train({ train: ['conv5', 'fc'], epochs: 1 });
    const [before, after] = [model, await openModel(out)];
    const valuesOf = async (from: OnnxModel, name: string): Promise<unknown> =>
      (
        await from
          .namedParameters()
          .find((one) => one.name === name)!
          .read()
      ).data;
    expect(await valuesOf(after, 'conv1.0.weight')).toEqual(await valuesOf(before, 'conv1.0.weight'));
    expect(await valuesOf(after, 'conv5.0.weight')).not.toEqual(await valuesOf(before, 'conv5.0.weight'));
  });

  it('gives the same bytes for the same seed, however many threads decode, and others for another seed', async () => {
    const bytesOf = async (given: Partial<Given>): Promise<Buffer> =>
      readFileSync((await train({ epochs: 1, holdout: 0, ...given })).out);
    const first = await bytesOf({});
    expect((await bytesOf({ decodeThreads: 3 })).equals(first)).toBe(true);
    expect((await bytesOf({ seed: SEED + 1 })).equals(first)).toBe(false);
    expect((await bytesOf({ augment: 'none' })).equals(first)).toBe(false);
  });

  it.each([
    ['in the middle of an epoch', (event: TrainEvent) => event.kind === 'step' && event.epoch === 2],
    ['after an epoch', (event: TrainEvent) => event.kind === 'epoch'],
    ['before the evaluation', (event: TrainEvent) => event.kind === 'step' && event.step === event.steps],
  ])('stopped %s, it goes on to the same bytes', async (_, isTime) => {
    const options = optionsFor({ batch: 2, train: ['conv5', 'fc'] });
    expect(await stopAt(isTime, options)).toMatchObject({ message: 'enough' });
    expect(existsSync(options.out)).toBe(false);
    const notes: string[] = [];
    const onEvent = (event: TrainEvent): void => {
      if (event.kind === 'note') notes.push(event.text);
    };
    const resumed = await trainFolder(model, photos, { ...options, onEvent });
    expect(notes).toContainEqual(expect.stringMatching(/^resumes in epoch \d, step \d/));
    const whole = await train({ batch: 2, train: ['conv5', 'fc'] });
    expect(readFileSync(resumed.out).equals(readFileSync(whole.out))).toBe(true);
    const plain = ({ epochs }: TrainedFolder): unknown =>
      epochs.map(({ epoch, training, heldOut, lr }) => ({ epoch, training, heldOut, lr }));
    expect(plain(resumed)).toEqual(plain(whole));
  });

  it('writes the best epoch, not the last one', async () => {
    // Such a rate makes every epoch another guess.
    const options = optionsFor({ epochs: 8, optimizer: { kind: 'sgd', lr: 5 }, schedule: 'none' });
    const trained = await trainFolder(model, photos, options);
    const { best, epochs } = trained;
    const scores = epochs.map(({ heldOut }) => heldOut!.accuracy);
    expect(best.heldOut!.accuracy).toBe(Math.max(...scores));
    expect(best).not.toBe(epochs.at(-1));
    // The page's confusions are those of the written model: its right answers are the best epoch's.
    const cells = [
      ...readFileSync(trained.page, 'utf8').matchAll(/<td(?: class="(right|wrong)[^"]*")?>(\d*)<\/td>/g),
    ]
      .filter(([, kind]) => kind !== undefined)
      .map(([, kind, count]) => [kind, Number(count)] as const);
    const right = cells.reduce((sum, [kind, count]) => sum + (kind === 'right' ? count : 0), 0);
    expect(cells.reduce((sum, [, count]) => sum + count, 0)).toBe(best.heldOut!.rows);
    expect(right / best.heldOut!.rows).toBeCloseTo(best.heldOut!.accuracy, 10);
    const again = await train({ ...options, epochs: best.epoch, out: `${options.out}.again.onnx` });
    const bytes = readFileSync(trained.out);
    expect(readFileSync(again.out).equals(bytes)).toBe(true);
    // A finished training whose file is gone trains nothing again.
    rmSync(trained.out);
    const events: TrainEvent[] = [];
    await trainFolder(model, photos, { ...options, onEvent: (event) => events.push(event) });
    expect(readFileSync(trained.out).equals(bytes)).toBe(true);
    expect(events.some(({ kind }) => kind === 'step')).toBe(false);
  });

  it('leaves out photos that cannot be read, and names them', async () => {
    const folder = folderOf('dunes', 'sea');
    copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(folder, 'sea/cut.jpg'));
    const { failures, epochs } = await train({ holdout: 0, epochs: 2 }, folder);
    expect(failures).toMatchObject([{ path: 'sea/cut.jpg', code: 'IMAGE_TRUNCATED' }]);
    expect(epochs.map(({ training }) => training.rows)).toEqual([8, 8]);
    const bad = mkdtempSync(join(place, 'bad-'));
    for (const name of ['a', 'b']) {
      mkdirSync(join(bad, name));
      writeFileSync(join(bad, name, '1.jpg'), '');
    }
    await expect(train({}, bad)).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/none of its training images can be read/),
    });
  });

  it('measures on another folder, and warns of classes that are not measured', async () => {
    const validation = folderOf('sea', 'dunes');
    const { epochs } = await train({ validation, epochs: 1 });
    expect(epochs[0]).toMatchObject({ training: { rows: 12 }, heldOut: { rows: 8 } });
    const single = folderOf('sea', 'dunes');
    for (const i of [1, 2, 3]) rmSync(join(single, `dunes/dunes-${i}.jpg`));
    const warnings: string[] = [];
    const onEvent = (event: TrainEvent): void => {
      if (event.kind === 'warning') warnings.push(event.text);
    };
    await train({ epochs: 1, onEvent }, single);
    expect(warnings).toEqual([expect.stringMatching(/single image.*"dunes"/)]);
  });

  it('refuses before the work what could not be written, and other settings for a training in progress', async () => {
    const options = optionsFor();
    expect(await stopAt(({ kind }) => kind === 'epoch', options)).toMatchObject({ message: 'enough' });
    await expect(trainFolder(model, photos, { ...options, batch: 3 })).rejects.toMatchObject({
      code: 'CHECKPOINT_INVALID',
      message: expect.stringMatching(/another "batch" \(4, now 3\)/),
    });
    await expect(trainFolder(model, folderOf('dunes', 'sea'), options)).rejects.toMatchObject({
      code: 'CHECKPOINT_INVALID',
    });
    const { out } = await trainFolder(model, photos, { ...options, batch: 3, overwrite: true });
    await expect(trainFolder(model, photos, options)).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
    await expect(trainFolder(out, photos, { ...options, overwrite: true })).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
    writeFileSync(join(place, 'mine.onnx.html'), 'mine');
    await expect(train({ out: join(place, 'mine.onnx') })).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
  });

  it('says where a stopped training is kept, and how to go on', async () => {
    const options = optionsFor();
    const notes: string[] = [];
    const abort = new AbortController();
    const onEvent = (event: TrainEvent): void => {
      if (event.kind === 'note') notes.push(event.text);
      if (event.kind === 'step' && event.step === 2) abort.abort(new Error('enough'));
    };
    await expect(trainFolder(model, photos, { ...options, signal: abort.signal, onEvent })).rejects.toThrow(
      'enough',
    );
    const state = `${options.out}.training`;
    expect(notes.at(-1)).toMatch(
      /^stopped in epoch 1, step \d, which is saved in ".*"; run the same training again/,
    );
    expect(notes.at(-1)).toContain(JSON.stringify(state));
    // What cannot be read is no reason to start again.
    const record = join(state, 'checkpoint.json');
    const whole = readFileSync(record);
    const flipped = whole.toString().replace('"failures"', '"failuras"');
    // Checkpoints of before have no digest of their facts.
    const former = flipped.replace('"factsSha256"', '"x"');
    for (const [text, message] of [
      [flipped, /facts in checkpoint\.json are not those that were written: it is damaged/],
      [former, /"failures" in checkpoint\.json is missing or damaged/],
    ] as const) {
      writeFileSync(record, text);
      await expect(trainFolder(model, photos, options)).rejects.toMatchObject({
        code: 'CHECKPOINT_INVALID',
        message: expect.stringMatching(message),
      });
    }
    for (const spoil of [
      () => writeFileSync(record, whole.subarray(0, 20)),
      () => {
        rmSync(record);
        mkdirSync(record);
      },
    ]) {
      spoil();
      await expect(trainFolder(model, photos, options)).rejects.toMatchObject({
        code: 'CHECKPOINT_INVALID',
        message: expect.stringMatching(/checkpoint\.json cannot be read/),
      });
    }
    expect(readdirSync(state)).toContain('tensors-1.safetensors');
  });

  it('may be given more epochs, and no fewer than it has done', async () => {
    const options = optionsFor({ epochs: 1, schedule: 'none' });
    await trainFolder(model, photos, options);
    const longer = { ...options, epochs: 2, overwrite: true };
    const { epochs, out } = await trainFolder(model, photos, longer);
    expect(epochs.map(({ epoch }) => epoch)).toEqual([1, 2]);
    const atOnce = await train({ epochs: 2, schedule: 'none' });
    expect(readFileSync(out).equals(readFileSync(atOnce.out))).toBe(true);
    rmSync(out);
    await expect(trainFolder(model, photos, options)).rejects.toMatchObject({
      code: 'CHECKPOINT_INVALID',
      message: expect.stringMatching(/it has trained 2 epochs, more than 1/),
    });
    const warnings: string[] = [];
    const onEvent = ({ kind, ...event }: TrainEvent): void => {
      if (kind === 'warning' && 'text' in event) warnings.push(event.text);
    };
    const planned = optionsFor({ epochs: 1, schedule: 'cosine' });
    await trainFolder(model, photos, planned);
    await trainFolder(model, photos, { ...planned, epochs: 2, overwrite: true, onEvent });
    expect(warnings).toEqual([
      expect.stringMatching(/^the learning rate \(cosine\) now follows a training of 2/),
    ]);
  });

  it.each([
    ['in training', { batch: 4 }, /the loss is .* in step 2/],
    ['of the held-out images', { batch: 16 }, /the loss of the held-out images is .* after step 1/],
  ])('stops at a loss %s that is not finite', async (_, given, message) => {
    const optimizer = { kind: 'sgd', lr: 3e38 } as const;
    await expect(train({ ...given, optimizer, schedule: 'none' })).rejects.toMatchObject({
      code: 'LOSS_NOT_FINITE',
      message: expect.stringMatching(message),
    });
  });

  it.each([
    [{ out: '' }, /"out"/],
    [{ holdout: 1 }, /"holdout" must be a number from 0 to below 1/],
    [{ epochs: 0 }, /"epochs"/],
    [{ warmup: 3 }, /"warmup" must be an integer from 0 to 2/],
    [{ train: [] }, /everything would stay frozen/],
    [{ transform: 'ImageNet1K_V1' }, /crop 64 × 64/],
    [{ batches: 3 }, /no option "batches"/],
  ])('refuses %j', async (given, message) => {
    await expect(train(given as Partial<Given>)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(message),
    });
  });
});
