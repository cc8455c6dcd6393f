/** Extractors made of others: what is left out is inherited, and undefined counts as left out. */
import { join } from 'node:path';
import {
  createFeatureExtractor,
  DataParallel,
  FeatureExtractor,
  pruneModel,
  type Tensor,
} from '../../build/modules/index.js';
import { afterAll, describe, expect, it } from 'vitest';
import { extractorInternals } from '../../build/modules/extract/extractor.js';
import { inheritFrom, readSession } from '../../src/extract/inherit-options.js';
import { SESSION_DEFAULTS } from '../../src/run/runtime/lanes/session-options.js';
import { scratchFolder, tinyResNet } from '../support/fixtures.js';

const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((one) => one.close())));

function keep<One extends { close(): Promise<void> }>(one: One): One {
  open.push(one);
  return one;
}

const photo: Tensor<'float32'> = {
  dtype: 'float32',
  dims: [2, 3, 64, 64],
  data: new Float32Array(2 * 3 * 64 * 64).fill(0.5),
};

describe('createFeatureExtractor of an extractor', () => {
  it('cuts its source model again, on its device', async () => {
    const first = keep(
      await createFeatureExtractor(
        tinyResNet(),
        { layer1: 'early' },
        { device: { type: 'cpu', threads: 1 } },
      ),
    );
    const later = keep(await createFeatureExtractor(first, { layer4: 'late' }));
    expect(later).toBeInstanceOf(FeatureExtractor);
    expect(later.model.source).toBe(first.model.source);
    expect(later.device).toBe(first.device);
    const fresh = keep(await createFeatureExtractor(tinyResNet(), { layer4: 'late' }));
    expect(await later.run(photo)).toEqual(await fresh.run(photo));
  });

  it('without names runs its model as it is', async () => {
    const first = keep(await createFeatureExtractor(tinyResNet(), { layer4: 'v' }, { pool: 'avg' }));
    const again = keep(await createFeatureExtractor(first, undefined, { devices: ['cpu:0', 'cpu:1'] }));
    expect(again).toBeInstanceOf(DataParallel);
    expect(again.model).toBe(first.model);
    expect((await again.run(photo)).v.dims).toEqual([2, 128]);
    await expect(createFeatureExtractor(first, undefined, { pool: 'max' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'pool' },
    });
  });

  it('of a data-parallel one can be on one device', async () => {
    const parallel = keep(
      await createFeatureExtractor(tinyResNet(), ['fc'], { devices: ['cpu:0', 'cpu:1'] }),
    );
    const single = keep(await createFeatureExtractor(parallel, ['fc'], { device: 'cpu' }));
    expect(single).toBeInstanceOf(FeatureExtractor);
    expect(single).not.toBeInstanceOf(DataParallel);
  });
});

describe('createFeatureExtractor of a pruned model', () => {
  it('runs it as it is, or cuts its source model again', async () => {
    const pruned = await pruneModel(tinyResNet(), { layer4: 'v' }, { l2Normalize: true, pool: 'avg' });
    const extractor = keep(await createFeatureExtractor(pruned));
    expect(extractor.model).toBe(pruned);
    const { v } = await extractor.run(photo);
    expect(v!.dims).toEqual([2, 128]);
    const other = keep(await createFeatureExtractor(pruned, { fc: 'logits' }));
    expect((await other.run(photo)).logits.dims).toEqual([2, 10]);
  });

  it('a file without names gives its own outputs: one that was saved gives what it was cut for', async () => {
    const file = join(scratchFolder(), 'cut.onnx');
    const pruned = await pruneModel(tinyResNet(), { layer4: 'layer3', fc: 'scores' });
    await pruned.save(file);
    const cut = keep(await createFeatureExtractor(file, undefined, { outputDtype: 'float16' }));
    const asked = keep(
      await createFeatureExtractor(tinyResNet(), ['layer4', 'fc'], { outputDtype: 'float16' }),
    );
    const expected = await asked.run(photo);
    // A module's name is an output here.
    const run = await cut.run(photo);
    expect(Object.keys(run)).toEqual(['layer3', 'scores']);
    expect(run).toEqual({ layer3: expected.layer4, scores: expected.fc });
  });
});

describe('an option that is undefined', () => {
  it('is inherited like one that is left out', async () => {
    const parallel = keep(
      await createFeatureExtractor(tinyResNet(), ['fc'], {
        devices: ['cpu:0', 'cpu:1'],
        exitTimeoutMs: 1234,
        parallel: { split: 'balanced', microBatch: 3 },
        session: { graphOptimizationLevel: 'disabled' },
      }),
    );
    const given = {
      device: undefined,
      devices: undefined,
      exitTimeoutMs: undefined,
      isolation: undefined,
      parallel: { split: undefined, dim: undefined },
      session: { graphOptimizationLevel: undefined, enableMemPattern: false },
    };
    const next = keep(await createFeatureExtractor(parallel, ['fc'], given));
    expect(next.devices).toEqual(['cpu:0', 'cpu:1']);
    const { model, options } = extractorInternals.of(next);
    expect(options).toMatchObject({ split: 'balanced', microBatch: 3 });
    expect(model.lane.exitTimeoutMs).toBe(1234);
    expect(model.session).toMatchObject({ graphOptimizationLevel: 'disabled', enableMemPattern: false });
  });

  it('gives weights again for another number of devices', async () => {
    const parallel = keep(
      await createFeatureExtractor(tinyResNet(), ['fc'], {
        devices: ['cpu:0', 'cpu:1'],
        parallel: { split: [3, 1] },
      }),
    );
    const same = keep(await createFeatureExtractor(parallel, ['fc']));
    expect(same.rowsPerDevice(4).map(({ rows }) => rows)).toEqual([3, 1]);
    const more = keep(
      await createFeatureExtractor(parallel, ['fc'], { devices: ['cpu:0', 'cpu:1', 'cpu:2'] }),
    );
    expect(more.rowsPerDevice(4).map(({ rows }) => rows)).toEqual([2, 2, 0]);
  });

  it.each([
    ['parallel: {}', { parallel: {} }],
    ['parallel: { split: undefined }', { parallel: { split: undefined } }],
    [
      'all of them',
      { device: undefined, devices: undefined, parallel: undefined, session: undefined, pool: undefined },
    ],
  ])('counts as left out on one device: %s', async (_what, options) => {
    keep(await createFeatureExtractor(tinyResNet(), ['fc'], options as object));
  });

  it.each([['parallel'], ['session'], ['device'], ['devices']])('%s: null is refused', async (option) => {
    const creating = createFeatureExtractor(tinyResNet(), ['fc'], { [option]: null } as object);
    await expect(creating).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option } });
  });
});

describe('readSession', () => {
  it('lays given fields over inherited ones, and over the defaults', () => {
    const inherited = { ...SESSION_DEFAULTS, executionMode: 'parallel', interOpNumThreads: 3 } as const;
    expect(readSession({ interOpNumThreads: 5, executionMode: undefined }, inherited)).toEqual({
      ...inherited,
      interOpNumThreads: 5,
    });
    expect(readSession({})).toEqual(SESSION_DEFAULTS);
  });

  it('refuses what is no option, whatever its value', () => {
    const given = { intraOpNumThreads: undefined } as object;
    expect(() => readSession(given, SESSION_DEFAULTS)).toThrow(/set the threads in the device/);
  });
});

describe('inheritFrom', () => {
  it('gives nothing for other models', () => {
    for (const model of ['model.onnx', undefined, {}]) expect(inheritFrom(model)).toBeUndefined();
  });
});
