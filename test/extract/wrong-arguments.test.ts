/** Every export of model/ and extract/ with wrong arguments: always a TapirError that says what to do, never a raw TypeError. */
import {
  chunkSizes,
  createFeatureExtractor,
  DataParallel,
  FeatureExtractor,
  featureInfo,
  getGraphNodeNames,
  isTapirError,
  measureModel,
  openModel,
  pruneModel,
  verifyModel,
} from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { scratchFolder, tinyResNet } from '../support/fixtures.js';

const model = await openModel(tinyResNet());
const pruned = await pruneModel(model, ['fc']);
const extractor = await createFeatureExtractor(model, ['fc']);
// `save` takes any name: such files belong into a scratch folder.
process.chdir(scratchFolder());
afterAll(() => extractor.close());

/** Objects of another copy of the package are instances of classes with these names. */
const foreign = ['OnnxModel', 'PrunedModel', 'FeatureExtractor', 'DataParallel'].map(
  (name) => new { [name]: class {} }[name]!(),
);
const circle: Record<string, unknown> = {};
circle['self'] = circle;
const settled = Promise.resolve(model);
const odd: readonly unknown[] = [
  null, true, 0, -1, 1.5, NaN, Infinity, 5n, '', ' ', 'nothing.onnx', 'file:', 'file://host/x', 'file:%zz', 'a\0b', '\0',
  'file:\0', Symbol('s'), () => undefined, class {}, [], [null], [[]], ['fc', 5], [['fc']], [['fc', 'a', 'b']],
  ['fc', ''], {}, { fc: 5 }, { fc: '' }, { fc: null }, { __proto__: null }, Object.create(null), { toString: 5 },
  { toJSON: () => undefined }, circle, new Map([[5, 'x']]), new Set(['fc']), new Date(NaN), /x/, new Error('x'),
  new Uint8Array(0), new Uint8Array(40).fill(255), new Float32Array(3), new ArrayBuffer(4), new URL('http://x/y'),
  new URL('file://host/x'), Buffer.from('PK'), settled, { device: 'gpu' }, { devices: [] }, { devices: 'cpu' },
  { session: 5 }, { parallel: 'chunk' }, { sizes: 5 }, { rows: 'x' }, { weights: 'x' }, { split: {} }, { signal: 5 },
  { onMeasured: 5 }, { seconds: 'x' }, { sessions: {} }, { pool: { fc: 5 } }, { inputs: 5 }, { input: { type: 'x' } },
  { names: 5 }, { names: '\0' }, { overwrite: 'x' }, { dims: 5, data: 5 }, { dims: [1], data: null }, { data: [], dims: [-1] },
  ...foreign,
]; // prettier-ignore

const calls: Readonly<Record<string, (...args: never[]) => unknown>> = {
  openModel,
  getGraphNodeNames,
  featureInfo,
  pruneModel,
  verifyModel,
  createFeatureExtractor,
  'DataParallel.create': DataParallel.create.bind(DataParallel),
  measureModel,
  chunkSizes,
  'new FeatureExtractor': (...args: unknown[]) => Reflect.construct(FeatureExtractor, args) as unknown,
  'new DataParallel': (...args: unknown[]) => Reflect.construct(DataParallel, args) as unknown,
  'extractor.run': extractor.run.bind(extractor),
  'pruned.save': pruned.save.bind(pruned),
};

/** Arguments before the wrong one, which the call accepts. */
const good: Readonly<Record<string, readonly unknown[]>> = {
  openModel: [tinyResNet()],
  featureInfo: [model],
  pruneModel: [model, ['fc']],
  verifyModel: [pruned],
  createFeatureExtractor: [model, ['fc']],
  'DataParallel.create': [extractor],
  measureModel: [model, ['fc']],
  chunkSizes: [3],
  'extractor.run': [{ dims: [0, 3, 64, 64], data: new Float32Array() }],
  'pruned.save': ['/no/folder/x.onnx'],
};

/** What a call ends in; a result that holds a session is closed. */
async function endOf(call: () => unknown): Promise<unknown> {
  try {
    const result = await call();
    if (result instanceof FeatureExtractor || result instanceof DataParallel) await result.close();
    return undefined;
  } catch (error) {
    return error;
  }
}

describe.each(Object.keys(calls))('%s', (name) => {
  it('gives a TapirError for 200 wrong arguments', async () => {
    const call = calls[name] as (...args: unknown[]) => unknown;
    const before = good[name] ?? [];
    const tries: unknown[][] = [[]];
    for (let position = 0; position <= before.length; position++)
      for (const wrong of odd) tries.push([...before.slice(0, position), wrong]);
    for (let i = 0; tries.length < 200; i++) tries.push([odd[i % odd.length], odd[(7 * i + 3) % odd.length]]);
    const raw: unknown[] = [];
    for (const args of tries) {
      if (isAccepted(args)) continue;
      // oxlint-disable-next-line no-await-in-loop -- one session at a time
      const error = await endOf(() => call(...args));
      if (error !== undefined && !isTapirError(error)) raw.push([args, error]);
    }
    expect(raw).toEqual([]);
  }, 240_000);
});

/** Options without a field are good ones, and a session takes time. */
function isAccepted(args: readonly unknown[]): boolean {
  const options = args.at(-1);
  return (
    args.length > 1 && typeof options === 'object' && options !== null && Object.keys(options).length === 0
  );
}

describe('the two usual mistakes', () => {
  it.each([
    ['getGraphNodeNames', async () => getGraphNodeNames(settled as never)],
    ['verifyModel', () => verifyModel(Promise.resolve(pruned) as never)],
    ['DataParallel.create', () => DataParallel.create(Promise.resolve(extractor) as never)],
    ['createFeatureExtractor', () => createFeatureExtractor(settled as never, ['fc'])],
  ])('%s asks for a forgotten await', async (_name, call) => {
    await expect(call()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/got a promise \(forgotten "await"\?\)/),
    });
  });

  it('names another copy of the package', async () => {
    await expect(featureInfo(foreign[0] as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/another copy of onnx-tapir/),
    });
    await expect(DataParallel.create(foreign[2] as never)).rejects.toMatchObject({
      message: expect.stringMatching(/FeatureExtractor, maybe of another copy of onnx-tapir/),
    });
  });
});

describe('getGraphNodeNames', () => {
  it('takes bytes, and gives a typed error for a path without a model', () => {
    expect(getGraphNodeNames(tinyResNet())).toEqual(getGraphNodeNames(model));
    expect(() => getGraphNodeNames('file.onnx')).toThrow(
      expect.objectContaining({ code: 'MODEL_UNREADABLE' }),
    );
  });
});
