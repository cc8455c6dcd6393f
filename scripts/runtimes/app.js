// The main job, as a program that is bundled or run elsewhere: a network, sessions in threads, photos decoded in threads.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';

export async function embed(photos) {
  const model = await createModel('squeezenet1_1', { seed: 1 });
  const extractor = await createFeatureExtractor(model, ['features'], { devices: ['cpu:0', 'cpu:1'] });
  const out = await mkdtemp(join(tmpdir(), 'tapir-app-'));
  const { embedded, failed } = await embedFolder(extractor, photos, { out, overwrite: true });
  await extractor.close();
  await rm(out, { recursive: true });
  return `${embedded} embedded, ${failed} failed`;
}

// Next.js imports it instead.
if (process.env.PHOTOS) void embed(process.env.PHOTOS).then(console.log);
