/** The report of a dataset whose rows are parts of pictures. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder } from 'onnx-tapir';
import { writeReport } from 'onnx-tapir/pages';
import { expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';

const photos = projectPath('examples/photos/city');

it.each([
  ['images', {}],
  ['tiles', { tiles: { size: 150 } }],
  ['crops', { transform: { resize: 80, crop: 64, crops: 'five' }, cropRows: 'each' }],
] as const)('says %s, and colours parts by their picture', async (noun, options) => {
  const out = join(scratchFolder(), noun);
  await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
  const { embedded } = await embedFolder(extractor, photos, {
    out,
    transform: { resize: 64, crop: 64 },
    ...options,
  });
  const { path } = await writeReport(out, { umap: false });
  const page = readFileSync(path, 'utf8');
  const [, rows] = new RegExp(`(\\d+) ${noun}`).exec(page)!;
  expect(Number(rows)).toBeGreaterThanOrEqual(embedded);
  if (noun === 'images') expect(page).not.toContain('"name":"picture"');
  else expect(page).toMatch(/"name":"picture","names":\["city-0\.jpg","city-1\.jpg"/);
});
