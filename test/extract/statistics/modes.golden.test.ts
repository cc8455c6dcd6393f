/** Every mode on every file of torch's cases. */
import { estimateBatchNorm, type EstimateOptions, type Options } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { sharedFixtures, sharedNote } from '../../support/fixtures.js';
import {
  batchesOf,
  caseFile,
  CASES,
  distanceOf,
  readCase,
  makeImages,
  stateOf,
} from '../../support/statistics.js';

const TOLERANCE = 1e-5;
const DEVICES = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
/** What torch's modes are called here. */
const MODES: Readonly<
  Record<
    string,
    { readonly options: Options<EstimateOptions>; readonly isSplit: boolean; readonly isWhole?: true }
  >
> = {
  device0: { options: { mode: 'device0' }, isSplit: true },
  device0_momentum1: { options: { mode: 'device0', momentum: 1 }, isSplit: true },
  momentum: { options: { mode: 'momentum' }, isSplit: true },
  synced: { options: { mode: 'synced' }, isSplit: true },
  synced_momentum1_whole: { options: { mode: 'synced', momentum: 1 }, isSplit: true, isWhole: true },
  cumulative: { options: { mode: 'momentum', momentum: 'cumulative' }, isSplit: false },
  precise: { options: { mode: 'precise' }, isSplit: false },
  precise_per_device: { options: { mode: 'precise' }, isSplit: true },
  adabn: { options: { mode: 'adabn' }, isSplit: true },
  adabn_sequential: { options: { mode: 'adabn-sequential' }, isSplit: true },
};

describe.skipIf(sharedFixtures === undefined)(`torch's statistics${sharedNote}`, () => {
  const cases = sharedFixtures === undefined ? [] : CASES.map(readCase);
  for (const one of cases) {
    const batches = batchesOf(one);
    const devices = DEVICES.slice(0, one.batches[0]!.devices.length);
    for (const { file, folded } of one.exports) {
      it.each(Object.keys(MODES).filter((mode) => one.modes[mode]))(
        `${one.case}, ${file}: %s`,
        async (mode) => {
          const { options, isSplit, isWhole } = MODES[mode]!;
          // Several devices where they matter, and once for each case.
          // Folding loses each layer's momentum.
          const momentum =
            options.momentum ??
            (options.mode === 'precise' || options.mode?.startsWith('adabn')
              ? undefined
              : one.layers[0]!.momentum);
          const before = batches.map(({ data }) => data.slice());
          const estimate = await estimateBatchNorm(
            caseFile(one, file),
            isWhole ? [makeImages(one.data)] : batches,
            {
              ...options,
              ...((isSplit && folded === 0) || mode === 'precise_per_device' || mode.startsWith('device0')
                ? { devices, split: one.case === 'resnet_one' ? [20, 17] : 'chunk' }
                : {}),
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
    }
  }
});
