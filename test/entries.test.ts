/** The entries of the built package: what each gives, and what importing it loads. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';
import { runScript } from './support/run.js';

/** The values of each entry. A new one is stated here. */
const VALUES: Readonly<Record<string, string>> = {
  '.': `DataParallel FeatureExtractor TapirError chunkSizes collateImages createFeatureExtractor createTransform describeFeatures distributedSampler
    embedFolder embedImages embedStream embedTransformStream findTransform getGraphNodeNames isTapirError listDevices loadClip loadImage loadTiles
    mergeDataset openDataset openModel pruneModel transformFromConfig verifyModel`,
  './parameters': 'loadStateDict readStateDict writeStateDict',
  './zoo': 'addPyramid createModel listKnownModels listModels pullModel pullTimm pullTorchvision',
  './precision': 'chooseEngine compareModels lowerPrecision quantizeModel',
  './stages': 'Pipeline createEarlyExit profileModel splitModel',
  './gradients': 'differentiate',
  './train': 'createTrainer estimateBatchNorm measureMoments mergeBatchNorm trainFolder',
  './explain': 'ATTRIBUTION_METHODS attribute createAttribution drawFeatures drawHeatmap',
  './features': `attachProbe checkProbe classifyImages classifyZeroShot createTextEncoder encodeLabels findDuplicates openSearch predictProbe readProbe
    saveProbe searchDataset trainProbe`,
  './pages': 'writeExplorer writeReport',
  './serve': 'createService',
};

const { exports } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as {
  exports: Record<string, { types: string; default: string }>;
};

/** The rooms of the source whose modules a file of the build loads, at once and not on demand. */
function roomsOf(path: string, seen = new Set<string>()): Set<string> {
  const rooms = new Set<string>();
  if (seen.has(path)) return rooms;
  seen.add(path);
  const text = readFileSync(path, 'utf8');
  for (const [, room] of text.matchAll(/^\/\/ src\/(\w+)\//gm)) rooms.add(room!);
  for (const [, file] of text.matchAll(
    /^(?:import|export)\s[^;'"]*["'](\.\/[^"']+)["'];|^import ["'](\.\/[^"']+)["'];/gm,
  ))
    if (file !== undefined) for (const room of roomsOf(join(dirname(path), file), seen)) rooms.add(room);
  return rooms;
}

it('are those of the table', () => {
  expect(Object.keys(exports)).toEqual([...Object.keys(VALUES), './package.json']);
});

describe.each(Object.entries(VALUES))('%s', (entry, values) => {
  const name = join('onnx-tapir', entry);

  it('gives its values, and loads no native library', async () => {
    const { stdout, stderr } = await runScript(`
      const names = Object.keys(await import('${name}')).sort();
      const { sharedObjects } = process.report.getReport();
      console.log(JSON.stringify({ names, native: sharedObjects.filter((path) => path.endsWith('.node')) }));`);
    expect(JSON.parse(stdout), stderr).toEqual({ names: values.split(/\s+/), native: [] });
  });

  it('loads no other entry than those that it stands on', () => {
    const entries = Object.keys(VALUES).slice(1);
    const above = new Set(entries.slice(entries.indexOf(entry) + 1).map((one) => one.slice(2)));
    const rooms = roomsOf(projectPath(exports[entry]!.default));
    expect(rooms).toContain(entry === '.' ? 'extract' : entry.slice(2));
    expect([...rooms].filter((room) => above.has(room))).toEqual([]);
    expect(rooms).not.toContain('cli');
  });
});
