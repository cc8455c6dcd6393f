/** What a probe's model keeps: each field of the source, with the bytes that it had. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  openDataset,
  pruneModel,
  TapirError,
} from 'onnx-tapir';
import { attachProbe, trainProbe } from 'onnx-tapir/features';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../src/base/random.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { seededImages } from '../../../support/exports.js';
import { failureOf } from '../../../support/failure.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { copyPhotos } from '../../../support/photos.js';

const scratch = scratchFolder();

type Fields = Record<'nodes' | 'initializers' | 'inputs' | 'imports', string[]>;

/** The bytes of a model's fields, in file order. */
function fieldsOf(bytes: Uint8Array): Fields {
  const { graph, imports } = scanModel(memorySource(bytes));
  const read = ({ start, end }: { start: number; end: number }): string =>
    Buffer.from(bytes.subarray(start, end)).toString('latin1');
  return {
    nodes: graph.nodes.map(({ field }) => read(field)),
    initializers: graph.initializers.map(({ field }) => read(field)),
    inputs: graph.inputs.map(({ field }) => read(field)),
    imports: [...imports.keys()].map(read),
  };
}

it.each(['logistic', 'ridge', 'knn', 'centroid'] as const)(
  'attaches %s after unchanged fields',
  async (kind) => {
    const [photos, vectors, model] = ['photos', 'vectors', 'net.onnx'].map((name) =>
      join(scratch, kind, name),
    ) as [string, string, string];
    copyPhotos(photos);
    writeFileSync(model, tinyResNet());
    await using extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
    await embedFolder(extractor, photos, {
      out: vectors,
      transform: createTransform({ resize: 64, crop: 64 }),
    });
    const probe = await trainProbe(await openDataset(vectors), 'by-folder', {
      kind,
      folds: 0,
      ...(kind === 'logistic' || kind === 'ridge' ? { strength: 1 } : {}),
    });

    const { kept } = (await pruneModel(model, { avgpool: 'embedding' })).plan;
    const source = fieldsOf(tinyResNet());
    const out = join(scratch, kind, 'classifier.onnx');
    await (await attachProbe(model, probe)).save(out);
    const attached = fieldsOf(readFileSync(out));
    for (const name of ['nodes', 'initializers', 'inputs', 'imports'] as const) {
      const unchanged = source[name].filter((bytes) => attached[name].includes(bytes));
      const count = name === 'imports' ? source.imports.length : kept[name].length;
      expect(unchanged, name).toHaveLength(count);
      expect(attached[name].slice(0, count).join('') === unchanged.join(''), name).toBe(true);
    }
    expect(attached.nodes.length).toBeGreaterThan(kept.nodes.length);
  },
);

describe('weights of your own', () => {
  const photo = {
    dtype: 'float32',
    dims: [2, 3, 64, 64],
    data: seededImages('own weights', [2, 3, 64, 64]),
  } as const;
  const weight = { dims: [3, 128], data: seeded(3 * 128) };
  const bias = { dims: [3], data: Float32Array.of(0.5, -1, 2) };

  /** Scores of rows in double precision. */
  function scoresOf(vectors: Float32Array, offsets: readonly number[], l2Normalize: boolean): number[][] {
    return [0, 1].map((row) => {
      const vector = Array.from(vectors.subarray(row * 128, row * 128 + 128));
      const norm = l2Normalize ? Math.hypot(...vector) : 1;
      return offsets.map((offset, k) =>
        vector.reduce((sum, value, i) => sum + (value / norm) * weight.data[k * 128 + i]!, offset),
      );
    });
  }

  it.each([
    ['scores', { activation: 'none' }],
    ['probabilities', {}],
    ['probabilities', { l2Normalize: true, bias }],
    ['scores', { activation: 'none', bias, pool: 'avg', node: 'layer4' }],
  ] as const)('give %s on a node: %j', async (name, more) => {
    const given = { node: 'avgpool', weight, classes: ['a', 'b', 'c'], ...more };
    const classifier = await attachProbe(tinyResNet(), given);
    expect(classifier.outputs).toEqual([{ name, dtype: 'float32', dims: ['batch', 3] }]);
    await using vectors = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
    await using attached = await createFeatureExtractor(classifier, [`tensor:${name}`]);
    const { v } = await vectors.run(photo);
    const actual = Object.values(await attached.run(photo))[0]!;
    const scores = scoresOf(
      v.data as Float32Array,
      'bias' in more ? [...bias.data] : [0, 0, 0],
      'l2Normalize' in more,
    );
    const expected = scores.flatMap((row) => {
      if (name === 'scores') return row;
      const sum = row.reduce((total, score) => total + Math.exp(score), 0);
      return row.map((score) => Math.exp(score) / sum);
    });
    Array.from(actual.data as Float32Array).forEach((value, i) => expect(value).toBeCloseTo(expected[i]!, 3));
    const path = join(scratch, `${Object.keys(more).join('-')}.onnx`);
    await classifier.save(path, { overwrite: true });
    expect(readFileSync(path, 'latin1')).toContain('["a","b","c"]');
  });

  it.each([
    [{ weight: { dims: [3, 7], data: seeded(21) } }, 'OUTPUT_MISFIT'],
    [{ weight: { dims: [384], data: seeded(384) } }, 'INPUT_MISMATCH'],
    [{ bias: { dims: [2], data: seeded(2) } }, 'INPUT_MISMATCH'],
    [{ classes: ['a', 'b'] }, 'OPTION_INVALID'],
    [{ activation: 'sigmoid' }, 'OPTION_INVALID'],
    [{ weights: weight }, 'OPTION_INVALID'],
    [{ node: 'layer9' }, 'NAME_NOT_FOUND'],
  ])('are refused: %j', async (wrong, code) => {
    const given = { node: 'avgpool', weight, ...wrong } as never;
    expect(await failureOf(attachProbe(tinyResNet(), given), TapirError)).toMatchObject({ code });
  });
});

function seeded(count: number): Float32Array<ArrayBuffer> {
  const random = createRandom(7);
  return Float32Array.from({ length: count }, () => random() - 0.5);
}
