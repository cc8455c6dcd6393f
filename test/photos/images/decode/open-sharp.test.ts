/** sharp's settings apply to the whole process; those of the host program must not change. */
import { randomUUID } from 'node:crypto';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runScript } from '../../../support/run.js';

const folder = scratchFolder();
const photos = join(folder, 'photos');
const model = join(folder, 'model.onnx');
mkdirSync(photos);
// Files that sharp decodes, so that each thread loads it.
for (let i = 0; i < 24; i++)
  copyFileSync(fixturePath('preprocess/images/own_strip.png'), join(photos, `${i}.png`));
writeFileSync(model, tinyResNet());

const IMPORT = `import sharp from 'sharp';`;
const REQUIRE = `import { createRequire } from 'node:module';
  const sharp = createRequire(${JSON.stringify(projectPath('package.json'))})('sharp');`;
const SETTINGS = `
  const settings = () => {
    const { memory, files, items } = sharp.cache();
    return [sharp.concurrency(), memory.max, files.max, items.max, sharp.simd()].join(' ');
  };`;

/** The settings that a program prints before and after its calls. */
async function settingsAfter(start: string, calls: string): Promise<string[]> {
  const { code, stdout, stderr } = await runScript(`${start} ${SETTINGS}
    import { createFeatureExtractor, createTransform, embedFolder, loadImage } from 'onnx-tapir';
    const [photos, model, out, png] = ${JSON.stringify([photos, model, join(folder, randomUUID()), join(photos, '0.png')])};
    console.log(settings());
    ${calls}`);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout.trim().split('\n');
}

const CALLS = `
  const transform = createTransform({ resize: 64, crop: 64 });
  (await loadImage(png, transform)).toTensor();
  console.log(settings());
  const extractor = await createFeatureExtractor(model, { avgpool: 'v' });
  // Several threads load sharp at once.
  for (let round = 0; round < 2; round++) {
    const options = { transform, decodeThreads: 4, batch: 1, out: out + round };
    const { manifest } = await embedFolder(extractor, photos, options);
    if (manifest.counts.ok !== 24) throw new Error('not embedded');
    console.log(settings());
  }
  await extractor.close();`;

describe('a program that uses sharp, too', () => {
  it.each([
    ['import', IMPORT],
    ['require', REQUIRE],
  ])('keeps its settings, with %s', async (_form, start) => {
    const own = 'sharp.concurrency(3); sharp.cache({ memory: 77, files: 5, items: 9 }); sharp.simd(false);';
    const lines = await settingsAfter(`${start} ${own}`, CALLS);
    expect(lines).toEqual(Array.from({ length: 4 }, () => '3 77 5 9 false'));
  });

  it('keeps those of sharp itself', async () => {
    const lines = await settingsAfter(IMPORT, CALLS);
    expect(new Set(lines).size).toBe(1);
    expect(lines[0]).toMatch(/^\d+ 50 20 100 /);
  });

  it('may change them later', async () => {
    const lines = await settingsAfter(
      IMPORT,
      `await loadImage(png); sharp.concurrency(2); sharp.cache(false); await loadImage(png); console.log(settings());`,
    );
    expect(lines.at(-1)).toMatch(/^2 0 0 0 /);
  });
});

describe('the command, which owns its process', () => {
  it('decodes each image in one thread and caches nothing, in all threads', async () => {
    const { code, stdout } = await runScript(`${IMPORT} ${SETTINGS}
      import { ownSharp } from ${JSON.stringify(projectPath('build/modules/photos/images/decode/open-sharp.js'))};
      import { DecodeLanes } from ${JSON.stringify(projectPath('build/modules/photos/images/lanes/decode-lanes.js'))};
      import { createTransform } from ${JSON.stringify(projectPath('build/modules/index.js'))};
      ownSharp();
      sharp.concurrency(3);
      const lanes = new DecodeLanes(createTransform({ resize: 8, crop: 8 }), 1);
      await lanes.load(${JSON.stringify(join(photos, '0.png'))}, new Uint8Array(new SharedArrayBuffer(192)));
      await lanes.close();
      console.log(settings());`);
    expect([code, stdout.trim()]).toEqual([0, expect.stringMatching(/^1 0 0 0 /)]);
  });
});
