/** Embedding a folder leaves its host process as it was. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runScript } from '../../support/run.js';

it('embedFolder changes nothing of its host: V8 flags, environment, globals, listeners, sharp', async () => {
  const scratch = scratchFolder();
  const photos = join(scratch, 'photos');
  mkdirSync(photos);
  for (let i = 0; i < 8; i++)
    copyFileSync(projectPath('examples/photos/sea/sea-0.jpg'), join(photos, `${i}.jpg`));
  const model = join(scratch, 'model.onnx');
  writeFileSync(model, tinyResNet());
  // Full shards, where garbage used to be collected. The script ends by itself: nothing is left that keeps the process alive.
  const { stdout, stderr, code } = await runScript(`
    import { runInNewContext } from 'node:vm';
    import { EventEmitter } from 'node:events';
    import sharp from 'sharp';
    import { createFeatureExtractor, createTransform, embedFolder } from 'onnx-tapir';
    const state = () => ({
      gc: runInNewContext('typeof gc'),
      globals: Object.getOwnPropertyNames(globalThis).toSorted(),
      listeners: Object.fromEntries(process.eventNames().map((name) => [String(name), process.listenerCount(name)])),
      environment: { ...process.env },
      maxListeners: EventEmitter.defaultMaxListeners,
      stackTraceLimit: Error.stackTraceLimit,
      cwd: process.cwd(),
      title: process.title,
      umask: process.umask(),
      sharp: [sharp.cache(), sharp.concurrency(), sharp.simd()],
    });
    const before = state();
    const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { avgpool: 'v' });
    const { embedded } = await embedFolder(extractor, ${JSON.stringify(photos)}, {
      out: ${JSON.stringify(join(scratch, 'out'))}, batch: 2, shardSize: 2, transform: createTransform({ resize: 64, crop: 64 }),
    });
    await extractor.close();
    console.log(JSON.stringify({ embedded, before, after: state() }));
  `);
  expect([stderr, code]).toEqual(['', 0]);
  const { embedded, before, after } = JSON.parse(stdout) as Record<string, unknown>;
  expect(embedded).toBe(8);
  expect(after).toEqual(before);
});
