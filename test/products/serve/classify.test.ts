/** `/classify` of a real service: labels and probabilities of every kind of classifier. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  embedImages,
  openDataset,
  openModel,
  type Extractor,
} from 'onnx-tapir';
import { attachProbe, classifyImages, trainProbe, type ImageClass } from 'onnx-tapir/features';
import { createService } from 'onnx-tapir/serve';
import { describe, expect, it } from 'vitest';

import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { withMetadata } from '../../support/graphs.js';
import { copyPhotos } from '../../support/photos.js';
import { cleanUpServices, openSmall, photo, refusalOf, serve, SMALL } from '../../support/service.js';

cleanUpServices();
const PHOTOS = ['city/city-0.jpg', 'dunes/dunes-1.jpg', 'sea/sea-2.jpg'].map(photo);
const LABELS = Array.from({ length: 10 }, (_, i) => `thing ${i}`);
const labelled = withMetadata(Buffer.from(tinyResNet()), { labels: JSON.stringify(LABELS) });

interface ClassifyReply {
  readonly model: string;
  readonly results: readonly {
    readonly index: number;
    readonly name?: string;
    readonly classes?: readonly { label: string; index: number; score: number; probability: number | null }[];
    readonly error?: { readonly code: string };
  }[];
}

async function classify(url: string, images: readonly Buffer[], query = ''): Promise<ClassifyReply> {
  const response = await fetch(`${url}/classify${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ images: images.map((bytes) => bytes.toString('base64')) }),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as ClassifyReply;
}

async function outputsOf(extractor: Extractor, key: string): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  for await (const { features } of embedImages(extractor, PHOTOS, { transform: SMALL }))
    rows.push(features![key]!.data as Float32Array);
  return rows;
}

describe('POST /classify', () => {
  it('labels of the metadata, and the softmax of logits', async () => {
    await using extractor = await createFeatureExtractor(labelled, { fc: 'logits', avgpool: 'v' });
    const { url } = await serve(extractor);
    const { model, results } = await classify(url, PHOTOS, '?top=10');
    expect(model).toBe('tiny');
    const expected = await outputsOf(extractor, 'logits');
    for (const [i, { index, classes }] of results.entries()) {
      expect(index).toBe(i);
      expect(classes!.map(({ label }) => label).toSorted()).toEqual(LABELS);
      const sum = expected[i]!.reduce((total, logit) => total + Math.exp(logit), 0);
      for (const one of classes!) {
        expect(one.label).toBe(LABELS[one.index]);
        expect(Math.fround(one.score)).toBe(expected[i]![one.index]);
        expect(one.probability).toBeCloseTo(Math.exp(one.score) / sum, 10);
      }
      const scores = classes!.map(({ score }) => score);
      expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    }
    expect((await classify(url, PHOTOS.slice(0, 1))).results[0]!.classes).toHaveLength(5);
  });

  it('takes an image as body, and errors beside results', async () => {
    await using classifier = await openSmallClassifier();
    const { url } = await serve(classifier, { labels: LABELS });
    const alone = await fetch(`${url}/classify?top=1`, {
      method: 'POST',
      headers: { 'content-type': 'image/jpeg' },
      body: new Uint8Array(PHOTOS[0]!),
    });
    const [best] = ((await alone.json()) as ClassifyReply).results;
    const both = await classify(url, [PHOTOS[0]!, Buffer.from('not an image')], '?top=1');
    expect(both.results[0]).toEqual(best);
    expect(both.results[1]).toMatchObject({ index: 1, error: { code: 'IMAGE_UNREADABLE' } });
  });

  it.each(['logistic', 'ridge'] as const)('the file of a probe: %s', async (kind) => {
    const scratch = scratchFolder();
    const [photos, model] = [join(scratch, 'photos'), join(scratch, 'net.onnx')];
    copyPhotos(photos);
    writeFileSync(model, tinyResNet());
    await using embedder = await createFeatureExtractor(model, { avgpool: 'embedding' });
    await embedFolder(embedder, photos, { out: join(scratch, 'vectors'), transform: SMALL });
    const probe = await trainProbe(await openDataset(join(scratch, 'vectors')), 'by-folder', {
      kind,
      folds: 0,
      strength: 1,
    });
    const out = join(scratch, 'classifier.onnx');
    const classifier = await attachProbe(model, probe);
    await classifier.save(out);
    const { name } = classifier.outputs[0]!;
    await using extractor = await createFeatureExtractor(await openModel(out), [[`tensor:${name}`, 'p']]);
    const { url } = await serve(extractor);
    const { results } = await classify(url, PHOTOS, '?top=100');
    const expected: (readonly ImageClass[])[] = [];
    for await (const { classes } of classifyImages(out, PHOTOS, { transform: SMALL, top: 100 }))
      expected.push(classes);
    expect(results).toHaveLength(3);
    for (const [i, { classes }] of results.entries()) {
      expect(classes!.map(({ label, score }) => ({ label, score: Math.fround(score) }))).toEqual(expected[i]);
      for (const { score, probability } of classes!)
        expect(probability).toBe(kind === 'logistic' ? score : null);
    }
  });

  it('is 501 for a model without labels, and 400 for another top', async () => {
    const { url } = await serve(await openSmall());
    const response = await postTo(url, '/classify');
    expect(await refusalOf(response)).toEqual([501, 'NOT_IMPLEMENTED']);
    await using classifier = await openSmallClassifier();
    const { url: other } = await serve(classifier, { labels: LABELS });
    for (const top of ['0', '-1', 'x', '1.5', '', '1&top=2'])
      expect(await refusalOf(await postTo(other, `/classify?top=${top}`)), top).toEqual([
        400,
        'REQUEST_INVALID',
      ]);
  });

  it('refuses labels that fit no output, before it listens', async () => {
    const service = createService(await openSmall(), { transform: SMALL, labels: ['a', 'b'] });
    await expect(service.ready()).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await service.close();
    const small = await openSmall();
    expect(() => createService(small, { transform: SMALL, labels: [] })).toThrow('labels');
    expect(() => createService(small, { transform: SMALL, textTower: {} as never })).toThrow('textTower');
  });
});

async function openSmallClassifier(): Promise<Extractor> {
  return createFeatureExtractor((await openSmall()).model.source, { fc: 'logits' });
}

function postTo(url: string, path: string): Promise<Response> {
  return fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'image/jpeg' },
    body: new Uint8Array(PHOTOS[0]!),
  });
}
