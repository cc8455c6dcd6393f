/** Files whose norms were folded: refused, unfolded with a state dict, or matched with the moments of the source data. */
import { openModel, type OnnxModel } from 'onnx-tapir';
import { estimateBatchNorm, measureMoments, type BatchNormMoments } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { identifyFile } from '../../../../src/run/model/prune/identify-model.js';
import { openModel as openInternal } from '../../../../src/run/model/open/open-model.js';
import { sharedFixtures, sharedNote } from '../../../support/fixtures.js';
import {
  batchesOf,
  caseFile,
  CASES,
  logitsDistance,
  makeImages,
  readCase,
  rowsOf,
  stateOf,
  type StatisticsCase,
} from '../../../support/statistics.js';

const TOLERANCE = 1e-5;
type Matching = NonNullable<StatisticsCase['exports'][number]['moment_matching']>;

/** The fixture's source moments as measureMoments gives them. Layers go by the norm's name where the file tells it. */
async function sourceOf(path: string, { layers }: Matching): Promise<BatchNormMoments> {
  const { sha256 } = await identifyFile(await openInternal(path));
  return {
    format: 'onnx-tapir moments 1',
    model: sha256,
    mode: 'adabn',
    layers: layers.flatMap(({ conv, norm, source_mean: mean, source_var: variance }) =>
      [conv, norm].map((name) => ({ name, count: 48, mean, variance })),
    ),
  };
}

describe.skipIf(sharedFixtures === undefined)(`folded files${sharedNote}`, () => {
  const cases = sharedFixtures === undefined ? [] : CASES.map(readCase);
  const folded = cases.flatMap((one) =>
    one.exports.filter((file) => file.folded > 0).map((file) => Object.assign({ one }, file)),
  );
  const matched = folded.filter(({ moment_matching: matching }) => matching !== undefined);

  it.each(folded)(
    'are refused without knowledge, partly folded ones too: $file',
    async ({ one, file, folded: count }) => {
      await expect(
        estimateBatchNorm(caseFile(one, file), batchesOf(one), { mode: 'adabn' }),
      ).rejects.toMatchObject({
        code: 'NORMS_UNAVAILABLE',
        message: expect.stringMatching(/state.*sourceMoments.*export/),
        details: { layers: { length: count } },
      });
    },
  );

  it.each(
    matched.flatMap((file) =>
      (['one_pass', 'sequential'] as const).map((how) => Object.assign({ how }, file)),
    ),
  )('have their moments matched: $file, $how', async ({ one, file, moment_matching: matching, how }) => {
    const expected = matching![how];
    const path = caseFile(one, file);
    const { model, layers } = await estimateBatchNorm(path, batchesOf(one), {
      mode: how === 'one_pass' ? 'adabn' : 'adabn-sequential',
      sourceMoments: await sourceOf(path, matching!),
    });
    expect(layers).toHaveLength(expected.layers.length);
    for (const [i, { target_mean: mean, target_var: variance }] of expected.layers.entries()) {
      const largest = Math.sqrt(Math.max(...variance));
      mean.forEach((value, c) =>
        expect(Math.abs(value - layers[i]!.mean[c]!) / largest).toBeLessThan(TOLERANCE),
      );
      variance.forEach((value, c) =>
        expect(Math.abs(layers[i]!.variance[c]! / value - 1)).toBeLessThan(TOLERANCE),
      );
    }
    expect(await logitsDistance(one, model, expected.logits)).toBeLessThan(TOLERANCE);
  });

  it.each(matched)(
    'have their source moments measured: $file',
    async ({ one, file, moment_matching: matching }) => {
      const images = makeImages(one.source);
      const parts = [rowsOf(images, 0, 20), rowsOf(images, 20, 48)];
      const { moments } = await measureMoments(caseFile(one, file), parts, { devices: ['cpu:0', 'cpu:1'] });
      for (const { conv, norm, source_mean: mean, source_var: variance } of matching!.layers) {
        const found = moments.layers.find(({ name }) => name === conv || name === norm)!;
        const largest = Math.sqrt(Math.max(...variance));
        mean.forEach((value, c) =>
          expect(Math.abs(value - found.mean[c]!) / largest).toBeLessThan(TOLERANCE),
        );
        variance.forEach((value, c) =>
          expect(Math.abs(found.variance[c]! / value - 1)).toBeLessThan(TOLERANCE),
        );
      }
      // And with them, the data of the source changes nothing.
      const { model } = await estimateBatchNorm(caseFile(one, file), parts, {
        mode: 'adabn',
        sourceMoments: moments,
      });
      const weights = async (of: OnnxModel) =>
        Promise.all(
          of
            .parameters()
            .filter(({ dims }) => dims.length > 1)
            .map((parameter) => parameter.read()),
        );
      const [before, after] = [await weights(await openModel(caseFile(one, file))), await weights(model)];
      before.forEach(({ data }, i) => {
        const largest = Math.max(...Array.from(data as Float32Array, Math.abs));
        (data as Float32Array).forEach((value, at) =>
          expect(Math.abs(Number(after[i]!.data[at]) - value)).toBeLessThan(1e-5 * largest),
        );
      });
    },
  );

  it('are refused with the state dict of another model, and with moments of another file', async () => {
    const [one, other] = [readCase('resnet'), readCase('resnet_one')];
    const path = caseFile(one, 'resnet.ts.onnx');
    await expect(
      estimateBatchNorm(path, batchesOf(one), { mode: 'adabn', state: await stateOf(other) }),
    ).rejects.toMatchObject({ code: 'STATE_AMBIGUOUS' });
    const matching = other.exports.find(({ file }) => file === 'resnet_one.ts.onnx')!.moment_matching!;
    const sourceMoments = await sourceOf(caseFile(other, 'resnet_one.ts.onnx'), matching);
    await expect(
      estimateBatchNorm(path, batchesOf(one), { mode: 'adabn', sourceMoments }),
    ).rejects.toMatchObject({
      code: 'MOMENTS_INVALID',
    });
    const [, ...layers] = (await sourceOf(path, one.exports[1]!.moment_matching!)).layers.filter(
      ({ name }) => name.includes('bn') || name.includes('downsample'),
    );
    const lacking = { ...(await sourceOf(path, one.exports[1]!.moment_matching!)), layers };
    await expect(
      estimateBatchNorm(path, batchesOf(one), { mode: 'adabn', sourceMoments: lacking }),
    ).rejects.toMatchObject({ code: 'NORMS_UNAVAILABLE' });
  });
});
