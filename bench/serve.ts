/**
 * `npx tsx bench/serve.ts [--rounds N] [--photos N] [--json FILE]`, part of `npm run bench`: photos by HTTP against the same photos in a
 * batch run, batching against none, and how fast a full service says so. The callers share the cores with the service.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import {
  createFeatureExtractor,
  createTransform,
  embedImages,
  type Extractor,
  type Options,
} from 'onnx-tapir';
import { createService, type ServiceOptions } from 'onnx-tapir/serve';
import sharp from 'sharp';
import { buildResNet } from '../models/resnet.js';
import { interleave, ratios, Report, spreadOf, watchOthers } from './measure.js';
import { makePhotos } from './peers/photos.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    photos: { type: 'string', default: '64' },
    json: { type: 'string' },
  },
});
const rounds = Number(values.rounds);
const resnet = fileURLToPath(new URL('../models/resnet50-untrained.onnx', import.meta.url));
const work = mkdtempSync(join(tmpdir(), 'tapir-bench-serve-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
const report = new Report();

async function listen(extractor: Extractor, options: Options<ServiceOptions>) {
  const service = createService(extractor, options);
  return { service, url: await service.listen({ port: 0 }) };
}

/** Sends images one by one over many connections, until so many are answered. */
async function load(url: string, images: readonly Buffer[], amount: number, connections: number) {
  const requests = images.map((body) => ({
    method: 'POST' as const,
    path: '/embed',
    headers: { 'content-type': 'image/jpeg', accept: 'application/x-npy' },
    body,
  }));
  // Each connection begins with another image: all of them would send the first ones otherwise.
  let begun = 0;
  const setupClient = (client: autocannon.Client): void => {
    const from = Math.floor((begun++ * images.length) / connections);
    client.setRequests([...requests.slice(from), ...requests.slice(0, from)]);
  };
  // Until the last answer: autocannon itself ends with the full second.
  await new Promise<void>((resolve, reject) => {
    let answered = 0;
    const instance = autocannon(
      { url, connections, amount, requests, setupClient, timeout: 60 },
      (error: unknown) => {
        if (error instanceof Error || answered < amount)
          reject(new Error(`${answered} of ${amount} answers came`));
      },
    );
    instance.on('response', (_client, status) => {
      if (status !== 200) reject(new Error(`an answer has status ${status}`));
      if (++answered === amount) resolve();
    });
  });
}

/** The same photos by HTTP and by `embedImages`, with the same extractor. */
async function benchAgainstBatch(photos: readonly Buffer[]): Promise<void> {
  const extractor = await createFeatureExtractor(resnet, { avgpool: 'v' });
  const { service, url } = await listen(extractor, {});
  const seconds = await interleave(rounds, {
    batch: async () => {
      for await (const { error } of embedImages(extractor, photos)) if (error) throw error;
    },
    served: () => load(url, photos, photos.length, 32),
  });
  await service.close();
  await extractor.close();
  const ratio = ratios(seconds.batch, seconds.served);
  report.add('ResNet-50: images/s served / images/s of embedImages', ratio, '>= 0.90', ratio.median >= 0.9);
}

/** A model of many small operators, whose cost for one image is nearly that for eight; thumbnails, that decode at once. */
async function benchBatching(photos: readonly Buffer[]): Promise<void> {
  const { bytes } = buildResNet(0, { blocks: [6, 8, 12, 6], width: 4, size: 64, classes: 10 });
  const transform = createTransform({ resize: 64, crop: 64 });
  const thumbnails = await Promise.all(
    photos.slice(0, 16).map((photo) => sharp(photo).resize(64, 64).jpeg().toBuffer()),
  );
  const extractor = await createFeatureExtractor(
    bytes,
    { avgpool: 'v' },
    { device: { type: 'cpu', threads: 1 } },
  );
  const on = await listen(extractor, { transform, maxBatch: 32 });
  const off = await listen(extractor, { transform, maxBatch: 1 });
  const amount = 1000;
  const seconds = await interleave(rounds, {
    off: () => load(off.url, thumbnails, amount, 64),
    on: () => load(on.url, thumbnails, amount, 64),
  });
  await Promise.all([on.service.close(), off.service.close()]);
  await extractor.close();
  const ratio = ratios(seconds.off, seconds.on);
  report.add('small model: images/s with batches / one by one', ratio, '>= 2', ratio.median >= 2);
}

/** How long a service that has no room takes to say so, one caller at a time. */
async function benchRefusal(photos: readonly Buffer[]): Promise<void> {
  const extractor = await createFeatureExtractor(resnet, { avgpool: 'v' });
  const { service, url } = await listen(extractor, { maxQueue: 2, maxBatch: 64, maxWaitMs: 10_000 });
  const leaving = new AbortController();
  const post = (signal: AbortSignal | null = null): Promise<Response> =>
    fetch(`${url}/embed`, {
      method: 'POST',
      body: Uint8Array.from(photos[0]!),
      headers: { 'content-type': 'image/jpeg' },
      signal,
    });
  for (let i = 0; i < 2; i++) void post(leaving.signal).catch(() => undefined);
  const taken: number[] = [];
  while (taken.length < 200) {
    const started = performance.now();
    const response = await post();
    await response.arrayBuffer();
    // Until both images have arrived there is room.
    if (response.status === 503) taken.push(performance.now() - started);
    else if (taken.length > 0) throw new Error(`a full queue answered ${response.status}`);
  }
  leaving.abort();
  await service.close();
  await extractor.close();
  const spread = spreadOf(taken);
  report.add('queue full: ms until status 503', spread, '<= 10', spread.median <= 10, 2);
}

const othersSince = watchOthers();
const photos = (await makePhotos(join(work, 'photos'), Number(values.photos))).map((path) =>
  readFileSync(path),
);
console.log(
  `${machineText()}; ${photos.length} photos of about 500×375; median [min–max] of ${rounds} rounds\n`,
);
await benchAgainstBatch(photos);
await benchBatching(photos);
await benchRefusal(photos);
const othersShare = othersSince();
console.log(`\nother processes used ${(100 * othersShare).toFixed(0)} % of the cores meanwhile`);
if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  writeFileSync(
    values.json,
    `${JSON.stringify({ machine: describeMachine(), othersShare, results: report.results }, null, 2)}\n`,
  );
}
