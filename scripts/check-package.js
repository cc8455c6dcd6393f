/** Installs the packed package and uses it: its size and files, import and require of each entry, the command, the native packages, the types. */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { check, pack, photos, project } from './packed.js';

const { exports } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
/** Readable code with its comments, types and guides; 3.5 MB of it are the demo's model and photos. */
const MAX_PACKED_BYTES = 6_300_000;
/** Kilobytes of an entry with all that it imports of the package, minified: what a bundle grows by. */
const MOST_KB = {
  '.': 730,
  './parameters': 265,
  './zoo': 427,
  './precision': 726,
  './stages': 570,
  './gradients': 300,
  './train': 882,
  './explain': 635,
  './features': 720,
  './pages': 803,
  './serve': 363,
};

/** What guides tell their readers to copy or to install. */
const COPIED = ['.github/actions/check', 'integrations/python', 'integrations/lancedb'];

const { folder, tarball, run, tool, node, install, remove } = pack();
try {
  const files = run('tar', ['-tzf', tarball]).trim().split('\n');
  const packed = statSync(tarball).size;
  check(packed < MAX_PACKED_BYTES, `the package is ${packed} bytes, at most ${MAX_PACKED_BYTES}`);
  const others = files.filter((file) => !/\/(models\/demo\.onnx|examples\/photos\/.*\.jpg)$/.test(file));
  check(
    !others.some((file) => /\.(onnx|jpg|npy)$|tests?\//.test(file)),
    'no models and photos but the demo’s, and no tests',
  );
  for (const copied of COPIED) {
    const kept = execFileSync('git', ['ls-files', copied], { cwd: project, encoding: 'utf8' })
      .trim()
      .split('\n');
    const missing = kept.filter(
      (file) => !/tests?\/|run_|\.gitignore$/.test(file) && !files.includes(`package/${file}`),
    );
    check(
      missing.length === 0,
      `${copied}, which guides say to copy, is in it${missing.map((file) => `, but not ${file}`).join('')}`,
    );
  }
  for (const [entry, { default: path }] of Object.entries(exports).filter(([, { default: path }]) => path)) {
    const options = { bundle: true, minify: true, format: 'esm', platform: 'node', packages: 'external' };
    const { outputFiles } = buildSync({
      ...options,
      entryPoints: [join(project, path)],
      write: false,
      logLevel: 'error',
    });
    const size = Math.ceil(outputFiles[0].contents.length / 1000);
    check(size <= MOST_KB[entry], `${entry} has ${size} kB, at most ${MOST_KB[entry]}`);
  }

  install('typescript@5.9.3', '@types/node@20');
  check(true, `it installs on Node ${process.version} without scripts, with each package made for it`);
  for (const entry of Object.keys(exports).filter((name) => name !== './package.json')) {
    const name = `onnx-tapir${entry.slice(1)}`;
    const names = node('-e', `import('${name}').then((m) => console.log(Object.keys(m).join()))`);
    check(names !== '', `import of ${name} gives ${names}`);
  }
  const required = node('--input-type=commonjs', '-e', "console.log(typeof require('onnx-tapir').openModel)");
  check(required === 'function', 'require works');
  check(tool('tapir', ['--version']).trim() !== '', 'the command runs');
  check(tool('tapir', ['demo', '--no-open']).includes('sea/sea-0.jpg'), 'the demo runs');
  const model = join(project, 'test/fixtures/graphs/generated/extract/dup_request.onnx');
  check(tool('tapir', ['nodes', model]).includes('dtype'), 'onnxruntime-node loads');
  const load = `import('onnx-tapir').then(async (m) => console.log((await m.loadImage('${photos}/sea/sea-0.jpg')).data.length))`;
  check(node('-e', load) === '150528', 'sharp loads');

  const use = `import { createFeatureExtractor, embedFolder, type Tensor } from 'onnx-tapir';
    export async function embed(): Promise<Tensor> {
      const extractor = await createFeatureExtractor('m.onnx', { layer4: 'features' }, { device: 'cpu' });
      const { features } = await extractor.run({ dtype: 'float32', dims: [1], data: new Float32Array(1) });
      console.log(features.dims, await embedFolder(extractor, 'photos', { out: 'vectors' }));
      return features;
    }\n`;
  for (const file of ['use.ts', 'use.cts']) writeFileSync(join(folder, file), use);
  const common = [
    '--noEmit',
    '--target',
    'es2022',
    '--lib',
    'es2022',
    '--types',
    'node',
    '--skipLibCheck',
    'false',
  ];
  const settings = {
    'strict, nodenext': ['--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', 'use.ts'],
    'strict, bundler': ['--strict', '--module', 'esnext', '--moduleResolution', 'bundler', 'use.ts'],
    'strict, CommonJS': ['--strict', '--module', 'nodenext', 'use.cts'],
    'not strict, as Next.js sets it': ['--module', 'nodenext', 'use.ts'],
  };
  for (const [setting, flags] of Object.entries(settings)) {
    tool('tsc', [...common, ...flags]);
    check(true, `the types compile: ${setting}`);
  }
} finally {
  remove();
}
