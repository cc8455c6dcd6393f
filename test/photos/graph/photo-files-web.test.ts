/** Photo files in onnxruntime-web, in a browser: the bits of onnxruntime-node, and the example that shows it. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { Browser } from 'playwright-core';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pruneModel } from '../../../src/extract/prune-model.js';
import { createFeatureExtractor } from '../../../src/extract/create-feature-extractor.js';
import { createPhotoFront } from '../../../src/photos/graph/photo-front.js';
import { makeTransform, type Transform } from '../../../src/photos/images/transform/transform.js';
import { browserNote, hasBrowser, openPage, startBrowser, type OpenedPage } from '../../support/browser.js';
import { startServer } from '../../support/file-server.js';
import { projectPath } from '../../support/fixtures.js';
import { madePhoto, photoFile } from '../../support/photo-files.js';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
};
const EXAMPLE = projectPath('examples/browser');
const RUNTIME = projectPath('node_modules/onnxruntime-web/dist');
const DEMO = projectPath('models/demo.onnx');

const TRANSFORMS = [
  makeTransform({ resize: 256, crop: 224 }),
  makeTransform({
    resize: { height: 90, width: 70 },
    crop: null,
    interpolation: 'bicubic',
    resampler: 'torch',
  }),
  makeTransform({
    resize: 60,
    crop: 80,
    interpolation: 'lanczos',
    resampler: 'pillow-13',
    fill: 9,
    channelOrder: 'bgr',
  }),
  makeTransform({ resize: 50, crop: 40, interpolation: 'hamming' }),
  makeTransform({ resize: 50, crop: 40, interpolation: 'nearest' }),
];
const PHOTOS = [[1, 1], [333, 500], [250, 3]].map(([height, width], seed) => madePhoto(height!, width!, seed)); // prettier-ignore

const digest = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');

function wantedOf(transform: Transform): string[] {
  const front = createPhotoFront(transform, {
    dtype: 'float32',
    isLast: false,
    input: 'pixels',
    hasBatch: false,
  });
  return PHOTOS.map((photo) => digest(new Uint8Array((front.tensorOf([photo]).data as Float32Array).buffer)));
}

describe.runIf(hasBrowser)(`a photo file in a browser${browserNote}`, () => {
  let browser: Browser;
  let opened: OpenedPage;
  const made = new Map<string, Uint8Array>();
  beforeAll(async () => {
    for (const [i, transform] of TRANSFORMS.entries()) made.set(`/${i}.onnx`, await photoFile(transform));
    for (const [i, { data }] of PHOTOS.entries()) made.set(`/${i}.rgb`, data);
    made.set('/model.onnx', await (await pruneModel(DEMO, ['embedding'], { input: 'photo' })).bytes());
    const { url } = await startServer((request, response) => {
      const path = request.url === '/' ? '/index.html' : request.url!;
      const file = path.startsWith('/ort/') ? join(RUNTIME, path.slice(5)) : join(EXAMPLE, path);
      const bytes = made.get(path) ?? (existsSync(file) ? readFileSync(file) : undefined);
      response.writeHead(bytes ? 200 : 404, {
        'content-type': TYPES[extname(path)] ?? 'application/octet-stream',
      });
      response.end(bytes);
    });
    browser = await startBrowser();
    opened = await openPage(browser, `${url}/`);
    await opened.page.getByText('Ready.').waitFor();
  });
  afterAll(() => browser.close());

  it('has the bits of the product, by WebAssembly', async () => {
    const sizes = PHOTOS.map(({ height, width }) => [height, width, 3]);
    const found = await opened.page.evaluate(`(async () => {
      const ort = await import('onnxruntime-web');
      const bytesOf = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
      const all = [];
      for (let i = 0; i < ${TRANSFORMS.length}; i++) {
        const session = await ort.InferenceSession.create(i + '.onnx', { executionProviders: ['wasm'] });
        const row = [];
        for (const [k, dims] of ${JSON.stringify(sizes)}.entries()) {
          const photo = new ort.Tensor('uint8', await bytesOf(k + '.rgb'), dims);
          const { tensor } = await session.run({ photo });
          const hash = await crypto.subtle.digest('SHA-256', tensor.data);
          row.push(Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join(''));
        }
        all.push(row);
      }
      return all;
    })()`);
    expect(found).toEqual(TRANSFORMS.map(wantedOf));
  });

  it('the example shows the nearest of photos that are dropped, offline once it is loaded', async () => {
    const { page, problems } = opened;
    await page.context().setOffline(true);
    const names = ['sea/sea-0', 'sea/sea-1', 'forest/forest-0'];
    const files = await Promise.all(
      names.map(async (name) => ({
        name: `${name.slice(name.indexOf('/') + 1)}.png`,
        mimeType: 'image/png',
        buffer: await sharp(projectPath(`examples/photos/${name}.jpg`))
          .png()
          .toBuffer(),
      })),
    );
    await page.setInputFiles('#files', files);
    await page.getByText('3 photos.').waitFor();
    const captions = await page.locator('#photos li').first().locator('figcaption').allInnerTexts();
    await using extractor = await createFeatureExtractor(DEMO, ['embedding']);
    const [sea, ...others] = (await extractor.embed(files.map(({ buffer }) => buffer))).map(unit);
    const near = others.map((other) => other.reduce((sum, value, i) => sum + value * sea![i]!, 0));
    expect(captions).toEqual([
      'sea-0.png',
      `${near[0]!.toFixed(3)} sea-1.png`,
      `${near[1]!.toFixed(3)} forest-0.png`,
    ]);
    expect(problems).toEqual([]);
  });
});

function unit(vector: Float32Array): Float32Array {
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}
