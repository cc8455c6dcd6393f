/** Preparing a model: once, checked, and with the reason if that is impossible. test/extract/prepared-models.test.ts compares results. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { LANE_DEFAULTS } from '../../../src/run/runtime/lanes/lane-options.js';
import { prepareModel, warnUnprepared, type Preparation } from '../../../src/run/runtime/prepare-model.js';
import { PREPARED_GRAPH } from '../../../src/run/runtime/lanes/prepared-files.js';
import { SESSION_DEFAULTS } from '../../../src/run/runtime/lanes/session-options.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { unknownModel } from '../../support/tiny-models.js';

const scratch = scratchFolder();
let caches = 0;

function preparation(fields: Partial<Preparation> = {}): { given: Preparation; described: () => number } {
  let described = 0;
  const given: Preparation = {
    identity: 'model',
    bytes: 1000,
    target: 'cpu',
    session: SESSION_DEFAULTS,
    lane: LANE_DEFAULTS,
    cache: { folder: join(scratch, `cache-${caches++}`), limitBytes: 2 ** 30 },
    describe: async () => {
      described++;
      return { model: tinyResNet(), externalFolder: undefined };
    },
    arePacksSafe: () => true,
    refuse: () => undefined,
    ...fields,
  };
  return { given, described: () => described };
}

describe('prepareModel', () => {
  it('saves a model once for the same content, options and target', async () => {
    const { given, described } = preparation();
    const entry = await prepareModel(given);
    expect(existsSync(join(entry.folder, PREPARED_GRAPH))).toBe(true);
    expect(entry.graph.byteLength).toBeGreaterThan(0);
    expect((await prepareModel(given)).folder).toBe(entry.folder);
    expect(described()).toBe(1);
    const basic = { ...given, session: { ...SESSION_DEFAULTS, graphOptimizationLevel: 'basic' } } as const;
    for (const other of [basic, { ...given, identity: 'other' }, { ...given, target: 'gpu' } as const])
      expect((await prepareModel(other)).folder).not.toBe(entry.folder);
    expect(described()).toBe(4);
  });

  it('saves it without packed matrices if they are not safe', async () => {
    const { given, described } = preparation({ arePacksSafe: () => false });
    await prepareModel(given);
    expect(described()).toBe(2);
  });

  it('records why a model cannot be prepared, and does not try again', async () => {
    const { given, described } = preparation({ refuse: () => 'it has float16 computed as float32' });
    for (let i = 0; i < 2; i++)
      await expect(prepareModel(given)).rejects.toThrow('it has float16 computed as float32');
    expect(described()).toBe(1);
  });

  it('passes on what prevents it, and leaves nothing behind', async () => {
    const full = preparation({ bytes: Number.MAX_SAFE_INTEGER }).given;
    await expect(prepareModel(full)).rejects.toThrow('the disk is full');
    expect(readdirSync(full.cache.folder)).toEqual([]);
    const bad = preparation({
      describe: async () => ({ model: unknownModel(), externalFolder: undefined }),
    }).given;
    await expect(prepareModel(bad)).rejects.toMatchObject({ code: 'SESSION_FAILED' });
    expect(readdirSync(bad.cache.folder)).toEqual([]);
  });
});

describe('warnUnprepared', () => {
  it('warns once, with what to do', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    warnUnprepared(Object.assign(new Error('EACCES'), { syscall: 'mkdir' }));
    warnUnprepared(new Error('again'));
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching(
          /could not be prepared.*: EACCES; choose another cacheFolder, or set cache "off"$/,
        ),
        { code: 'TAPIR_CACHE_UNUSABLE' },
      ],
    ]);
    warn.mockRestore();
  });
});
