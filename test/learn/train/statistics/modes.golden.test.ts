/** Every mode on every file of torch's cases. */
import { type Options } from 'onnx-tapir';
import { estimateBatchNorm, type EstimateOptions } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { sharedFixtures, sharedNote } from '../../../support/fixtures.js';
import { someOf } from '../../../support/rounds.js';
import {
  batchesOf,
  caseFile,
  CASES,
  distanceOf,
  readCase,
  makeImages,
  stateOf,
} from '../../../support/statistics.js';

const TOLERANCE = 1e-5;
const DEVICES = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
/** What torch's modes are called here. */
const MODES: Readonly<Record<string, Options<EstimateOptions>>> = {
  device0: { mode: 'device0' },
  device0_momentum1: { mode: 'device0', momentum: 1 },
  momentum: { mode: 'momentum' },
  synced: { mode: 'synced' },
  synced_momentum1_whole: { mode: 'synced', momentum: 1 },
  cumulative: { mode: 'momentum', momentum: 'cumulative' },
  precise: { mode: 'precise' },
  precise_per_device: { mode: 'precise' },
  adabn: { mode: 'adabn' },
  adabn_sequential: { mode: 'adabn-sequential' },
};
/** Modes whose result depends on the split. */
const SPLIT = new Set(['device0', 'device0_momentum1', 'precise_per_device']);
/** On further files of a case: one mode for each way that graphs are run. All modes run on the file with all norms. */
const REPEATED = new Set(['momentum', 'synced', 'adabn']);
/** Modes that must not depend on it: on several devices once for each case, because each device opens sessions. */
const ALSO_SPLIT = new Set(['synced', 'adabn']);

/** Every mode on the first file; of the others, of which each opens its own sessions, one in three in a check. */
const cases = (sharedFixtures === undefined ? [] : CASES.map(readCase)).flatMap((one) =>
  one.exports.map(({ file, folded }) => ({
    one,
    file,
    folded,
    modes: Object.keys(MODES).filter(
      (mode) => one.modes[mode] && (file.includes('preserve') || REPEATED.has(mode)),
    ),
  })),
);
const tried = cases.flatMap(({ modes, ...rest }) => modes.map((mode) => ({ ...rest, mode })));
const first = cases[0]?.modes.length ?? 0;

describe.skipIf(sharedFixtures === undefined)(`torch's statistics${sharedNote}`, () => {
  it.each([...tried.slice(0, first), ...someOf(tried.slice(first), 3)])(
    '$one.case, $file: $mode',
    async ({ one, file, folded, mode }) => {
      const batches = batchesOf(one);
      const devices = DEVICES.slice(0, one.batches[0]!.devices.length);
      const options = MODES[mode]!;
      const isSplit = SPLIT.has(mode) || (folded === 0 && ALSO_SPLIT.has(mode));
      // Folding loses each layer's momentum.
      const momentum =
        options.momentum ??
        (options.mode === 'precise' || options.mode?.startsWith('adabn')
          ? undefined
          : one.layers[0]!.momentum);
      const before = batches.map(({ data }) => data.slice());
      const estimate = await estimateBatchNorm(
        caseFile(one, file),
        mode.endsWith('whole') ? [makeImages(one.data)] : batches,
        {
          ...options,
          ...(isSplit ? { devices, split: one.case === 'resnet_one' ? [20, 17] : 'chunk' } : {}),
          ...(folded > 0 ? { state: await stateOf(one), momentum } : {}),
        },
      );
      const { mean, variance, logits } = await distanceOf(one, mode, estimate);
      expect(mean).toBeLessThan(TOLERANCE);
      expect(variance).toBeLessThan(TOLERANCE);
      expect(logits).toBeLessThan(TOLERANCE);
      batches.forEach(({ data }, i) => expect(data).toEqual(before[i]));
    },
  );
});
