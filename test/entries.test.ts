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
  './train':
    'createTrainer estimateBatchNorm joinGroup localGroups measureMoments mergeBatchNorm trainFolder',
  './explain': 'ATTRIBUTION_METHODS attribute createAttribution drawFeatures drawHeatmap',
  './features': `attachProbe checkProbe classifyByWords classifyImages classifyZeroShot createTextEncoder encodeLabels findDuplicates openSearch predictProbe readProbe
    saveProbe searchDataset trainProbe`,
  './pages': 'writeExplorer writeReport',
  './serve': 'createService',
};

const { exports } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as {
  exports: Record<string, { types: string; default: string }>;
};

/** The modules of the source that a file of the build loads, at once and not on demand. */
function modulesOf(path: string, seen = new Set<string>()): string[] {
  if (seen.has(path)) return [];
  seen.add(path);
  const text = readFileSync(path, 'utf8');
  const modules = Array.from(text.matchAll(/^\/\/ src\/(\S+)$/gm), ([, module]) => module!);
  for (const [, file] of text.matchAll(
    /^(?:import|export)\s[^;'"]*["'](\.\/[^"']+)["'];|^import ["'](\.\/[^"']+)["'];/gm,
  ))
    if (file !== undefined) modules.push(...modulesOf(join(dirname(path), file), seen));
  return modules;
}

/** The folder of an entry, in `src`. */
function folderOf(entry: string): string {
  return entry === '.' ? 'extract/' : exports[entry]!.types.replace(/^\.\/dist\/types\/|index\.d\.ts$/g, '');
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
    const above = [...entries.slice(entries.indexOf(entry) + 1).map(folderOf), 'cli/'];
    const modules = modulesOf(projectPath(exports[entry]!.default));
    expect(modules.some((module) => module.startsWith(folderOf(entry)))).toBe(true);
    expect(modules.filter((module) => above.some((folder) => module.startsWith(folder)))).toEqual([]);
  });
});
