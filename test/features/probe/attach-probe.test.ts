/** What a probe's model keeps: each field of the source, with the bytes that it had. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, createTransform, embedFolder, openDataset, pruneModel } from 'onnx-tapir';
import { attachProbe, trainProbe } from 'onnx-tapir/features';
import { expect, it } from 'vitest';
import { scanModel } from '../../../src/onnx/scan/scan.js';
import { memorySource } from '../../../src/onnx/wire/source.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { copyPhotos } from '../../support/photos.js';

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
    const probe = await trainProbe(await openDataset(vectors), 'by-folder', { kind, folds: 0, strength: 1 });

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
