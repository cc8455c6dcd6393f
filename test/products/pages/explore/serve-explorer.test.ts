/** The served page: who may use it, what it answers, what it writes. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { createFeatureExtractor, loadImage, openModel, pruneModel } from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PageCut, PageFeatures, PagePhoto } from '../../../../src/products/pages/explore/page/data.js';
import type { ModelMeasure } from '../../../../src/products/pages/explore/structure/model-structure.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { servePage, type ServedPage } from '../../../support/served-page.js';

const scratch = scratchFolder();
const folder = join(scratch, 'here');
mkdirSync(folder);
const model = join(scratch, 'net.onnx');
writeFileSync(model, tinyResNet());
const photo = projectPath('examples/photos/forest/forest-1.jpg');

let served: ServedPage;
let origin: string;
let key: string;
beforeAll(async () => {
  served = await servePage('explore', [model, photo], folder);
  const url = new URL(served.url);
  origin = url.origin;
  key = url.searchParams.get('key')!;
});
afterAll(async () => {
  expect((await served.stop()).code).toBe(0);
});

const ask = async <Value>(path: string, init: RequestInit = {}): Promise<Value> => {
  const response = await fetch(`${origin}/api/${path}`, { ...init, headers: { 'x-tapir-key': key } });
  return (await response.json()) as Value;
};

/** The status of a request with headers that fetch would not send. */
function statusOf(path: string, headers: Readonly<Record<string, string>>, method = 'GET'): Promise<number> {
  const { port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, headers, method }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    sent.on('error', reject);
    sent.end();
  });
}

describe('a served page', () => {
  it('is for this machine and for whoever has its key', async () => {
    const host = new URL(origin).host;
    const has = { host, 'x-tapir-key': key };
    expect(await statusOf('/api/measure', has)).toBe(200);
    expect(await statusOf('/api/measure', { host })).toBe(403);
    expect(await statusOf('/api/measure', { ...has, 'x-tapir-key': `${key}x` })).toBe(403);
    // Another name that leads to this machine: DNS rebinding.
    expect(await statusOf('/api/measure', { ...has, host: `evil.example:${new URL(origin).port}` })).toBe(
      403,
    );
    expect(await statusOf('/', { host })).toBe(403);
    expect(await statusOf('/?key=x', { host })).toBe(403);
    expect(await statusOf(`/?key=${key}`, { host })).toBe(200);
    // The key in the address is for the page only, so that no link makes a request with an effect.
    expect(await statusOf(`/api/save?key=${key}`, { host }, 'POST')).toBe(403);
    for (const question of ['nonsense', 'constructor', '__proto__', 'toString'])
      expect(await statusOf(`/api/${question}`, has), question).toBe(404);
  });

  it('gives the numbers of the extractor, scaled as it says', async () => {
    const { maps, statistics, dims } = await ask<PageFeatures>('features?node=layer2&photo=0');
    const size = { height: 64, width: 64 };
    const image = await loadImage(photo, { resize: size, crop: size });
    await using extractor = await createFeatureExtractor(model, ['layer2']);
    const { layer2 } = await extractor.run(image.toTensor());
    const values = layer2!.data as Float32Array;
    expect(dims).toEqual(layer2!.dims);
    const places = maps!.height * maps!.width;
    const bytes = Buffer.from(maps!.pixels, 'base64');
    maps!.maps.forEach(([channel, least, largest], i) => {
      const own = values.subarray(channel * places, (channel + 1) * places);
      expect([least, largest]).toEqual([Math.min(...own), Math.max(...own)]);
      const scale = largest > least ? 255 / (largest - least) : 0;
      const expected = [...own].map((value) => Math.round((value - least) * scale));
      expect([...bytes.subarray(i * places, (i + 1) * places)]).toEqual(expected);
    });
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    expect(statistics.mean).toBeCloseTo(mean, 10);
  });

  it('measures sizes and costs', async () => {
    const { inputs, dims, macs, milliseconds } = await ask<ModelMeasure>('measure');
    expect(inputs).toEqual([[1, 3, 64, 64]]);
    expect(dims[0]![0]).toEqual([1, 4, 32, 32]);
    expect(macs.reduce<number>((sum, one) => sum + (one ?? 0), 0)).toBeGreaterThan(10_000);
    expect(milliseconds).toBeNull();
    const timed = await ask<ModelMeasure>('measure?times=1');
    expect(timed.milliseconds!.some((one) => one !== null && one > 0)).toBe(true);
  });

  it('takes photos, and says what is wrong with those that it cannot read', async () => {
    const added = await ask<readonly PagePhoto[]>('photo?name=a%3Cb%3E.jpg', {
      method: 'POST',
      body: readFileSync(photo),
    });
    const picture = expect.stringMatching(/^data:image\/webp;base64,/) as string;
    expect(added).toEqual([{ id: '1', name: 'a<b>.jpg', picture, place: null }]);
    const refused = await ask<{ problem: string }>('photo?name=x', { method: 'POST', body: 'no photo' });
    expect(refused.problem).toMatch(/image/i);
    const heat = await ask<Record<string, unknown>>('heat?node=layer4&photo=1&class=3');
    expect(heat).toMatchObject({ classIndex: 3, height: 64, width: 64, layer: 'layer4' });
    expect((heat as { about: string }).about).toMatch(/^The score is a value of “/);
    expect(await ask('classes?photo=1')).toHaveLength(5);
  });

  it('says what a cut keeps, and which names it refuses', async () => {
    const cut = await ask<PageCut>('cut?node=layer1&node=layer2');
    const { kept } = (await pruneModel(model, ['layer1', 'layer2'])).plan;
    expect(cut).toEqual({ bytes: kept.bytes, notes: [] });
    const { problem } = await ask<{ problem: string }>('cut?node=layer9');
    expect(problem).toContain('layer9');
  });

  it('saves a cut as a new file in its folder, by a plain name, and replaces nothing', async () => {
    const save = (file: string): Promise<{ path?: string; problem?: string }> =>
      ask('save', { method: 'POST', body: JSON.stringify({ names: ['layer3'], file }) });
    const { path } = await save('layer3.onnx');
    expect(path).toBe(join(folder, 'layer3.onnx'));
    expect((await openModel(path!)).outputs).toHaveLength(1);
    expect((await save('layer3.onnx')).problem).toContain('exists');
    for (const file of ['../out.onnx', '/tmp/out.onnx', 'a/b.onnx', 'net.txt', '', '..\\x.onnx'])
      expect((await save(file)).problem, file).toContain('a plain name');
    for (const body of ['', 'null', '[]', '{"names":[1],"file":"a.onnx"}', '{"names":["layer3"]}'])
      expect((await ask<{ problem: string }>('save', { method: 'POST', body })).problem, body).toContain(
        'must be',
      );
    expect((await ask<{ problem: string }>('photo', { method: 'POST' })).problem).toBeTypeOf('string');
    expect(readdirSync(folder)).toEqual(['layer3.onnx']);
    expect(existsSync(join(scratch, 'out.onnx'))).toBe(false);
  });
});
