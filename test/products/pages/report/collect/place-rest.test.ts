/** Images beyond those that are compared with each other: their places, against computing them with all. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { expect, it } from 'vitest';
import { collectInputs } from '../../../../../src/products/pages/report/collect/collect-inputs.js';
import { collectOutput } from '../../../../../src/products/pages/report/collect/collect-output.js';
import { placeRest } from '../../../../../src/products/pages/report/collect/place-rest.js';
import { principalComponents } from '../../../../../src/onnx/tensor/vectors/principal-components.js';
import { toUnitLength } from '../../../../../src/onnx/tensor/vectors/cosine.js';
import { scratchFolder, tinyResNet } from '../../../../support/fixtures.js';
import { copyPhotos } from '../../../../support/photos.js';

it('gives a row that was not compared the place, neighbours and length of the same row among the compared', async () => {
  const scratch = scratchFolder();
  const photos = join(scratch, 'photos');
  mkdirSync(photos);
  copyPhotos(photos);
  await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'embedding' });
  await embedFolder(extractor, photos, { out: join(scratch, 'v'), transform: { resize: 64, crop: 64 } });
  const dataset = await openDataset(join(scratch, 'v'));
  const breathe = (): Promise<void> => Promise.resolve();
  const inputs = await collectInputs(dataset, 1000, breathe);
  const output = await collectOutput(dataset, 'embedding', inputs, breathe);
  const { rows, columns, data } = output.vectors;
  expect(rows).toBe(inputs.images.length);
  const { places } = await principalComponents(toUnitLength(output.vectors), 2, breathe);
  const pca = Float64Array.from(places[0]!.flatMap((x, row) => [x, places[1]![row]!]));
  // The second half is placed from the first: what it should come to follows from the vectors themselves.
  const half = Math.ceil(rows / 2);
  const vectors = { rows: half, columns, data: data.slice(0, half * columns) };
  const own = await principalComponents(toUnitLength(vectors), 2, breathe);
  const ownPca = Float64Array.from(own.places[0]!.flatMap((x, row) => [x, own.places[1]![row]!]));
  const compared = { ...output, members: output.members.slice(0, half), vectors };
  const rest = await placeRest(
    dataset,
    inputs,
    compared,
    { pca: ownPca, umap: ownPca },
    2,
    undefined,
    () => undefined,
  );
  expect(rest.members).toEqual(output.members.slice(half));
  rest.lengths.forEach((length, i) => expect(length).toBeCloseTo(output.lengths[half + i]!, 4));
  const unit = toUnitLength(output.vectors).data;
  const cosine = (a: number, b: number): number =>
    Array.from({ length: columns }, (_, c) => unit[a * columns + c]! * unit[b * columns + c]!).reduce(
      (x, y) => x + y,
      0,
    );
  rest.members.forEach((_, i) => {
    const near = Array.from({ length: half }, (__, row) => [row, 1 - cosine(half + i, row)] as const)
      .toSorted((a, b) => a[1] - b[1])
      .slice(0, 2);
    near.forEach(([, distance], k) => expect(rest.distances[2 * i + k]).toBeCloseTo(distance, 5));
    // Between its nearest.
    const between = near.map(([row]) => ownPca[2 * row]!);
    expect(rest.umap[2 * i]).toBeGreaterThanOrEqual(Math.min(...between) - 1e-6);
    expect(rest.umap[2 * i]).toBeLessThanOrEqual(Math.max(...between) + 1e-6);
  });
  // A compared row that is placed like the rest comes to its own place: here all rows, from all rows.
  const again = await placeRest(
    dataset,
    inputs,
    { ...output, members: output.members.map((member) => member + rows) },
    { pca, umap: undefined },
    1,
    undefined,
    () => undefined,
  );
  again.pca.forEach((place, i) => expect(place).toBeCloseTo(pca[i]!, 4));
});
