/**
 * Installs the packed package into an empty folder, as a user on a CPU-only machine does, and uses it there: import, require,
 * command and types. Needs the npm registry (npm's cache where that holds the packages).
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const { exports } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'tapir-package-'));
/** Readable code with its comments, types and guides. */
const MAX_PACKED_BYTES = 1_800_000;

function run(command, args, options = {}) {
  const env = {
    ...process.env,
    ONNXRUNTIME_NODE_INSTALL: 'skip',
    npm_config_loglevel: 'error',
    // npm's default, and not this checkout's: fastify's way to test itself (light-my-request) has a dependency that asks for Node 22.
    npm_config_engine_strict: 'false',
    npm_config_ignore_scripts: 'false',
    ...options.env,
  };
  return execFileSync(command, args, {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    ...options,
    env,
  });
}

function check(condition, what) {
  if (!condition) throw new Error(`package check failed: ${what}`);
  console.log(`ok  ${what}`);
}

try {
  run('npm', ['pack', '--pack-destination', folder], { cwd: project });
  const tarball = join(
    folder,
    readdirSync(folder).find((file) => file.endsWith('.tgz')),
  );
  const files = run('tar', ['-tzf', tarball]).trim().split('\n');
  const packed = statSync(tarball).size;
  check(packed < MAX_PACKED_BYTES, `the package is ${packed} bytes, at most ${MAX_PACKED_BYTES}`);
  check(
    !files.some((file) => /\.(onnx|jpg|png|npy)$|test\//.test(file)),
    'no models, pictures or tests are in it',
  );

  writeFileSync(join(folder, 'package.json'), '{"name":"consumer","private":true,"type":"module"}');
  run('npm', [
    'install',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    tarball,
    'typescript@5.9.3',
    '@types/node@20',
  ]);
  const entries = Object.keys(exports).filter((entry) => entry !== './package.json');
  for (const entry of entries) {
    const name = `onnx-tapir${entry.slice(1)}`;
    const names = run(process.execPath, [
      '-e',
      `import('${name}').then((m) => console.log(Object.keys(m).join()))`,
    ]);
    check(names.trim() !== '', `import of ${name} gives ${names.trim()}`);
  }
  check(
    run(process.execPath, [
      '--input-type=commonjs',
      '-e',
      "console.log(typeof require('onnx-tapir').openModel)",
    ]).trim() === 'function',
    'require works',
  );
  check(run(join(folder, 'node_modules/.bin/tapir'), ['--version']).trim() !== '', 'the command runs');

  const pictures = join(project, 'examples/photos');
  const model = join(project, 'test/fixtures/graphs/generated/extract/dup_request.onnx');
  check(
    run(join(folder, 'node_modules/.bin/tapir'), ['nodes', model]).includes('dtype'),
    'onnxruntime-node loads',
  );
  const size = run(process.execPath, [
    '-e',
    `import('onnx-tapir').then(async (m) => console.log((await m.loadImage('${pictures}/sea/sea-0.jpg')).data.length))`,
  ]);
  check(size.trim() === '150528', 'sharp loads');

  writeFileSync(
    join(folder, 'use.ts'),
    `import { createFeatureExtractor, embedFolder, type Tensor } from 'onnx-tapir';
     const extractor = await createFeatureExtractor('m.onnx', { layer4: 'features' }, { device: 'cpu' });
     const { features } = await extractor.run({ dtype: 'float32', dims: [1], data: new Float32Array(1) });
     export const tensor: Tensor = features;
     export const summary = await embedFolder(extractor, 'photos', { out: 'vectors' });\n`,
  );
  const flags = [
    '--noEmit',
    '--strict',
    '--exactOptionalPropertyTypes',
    '--target',
    'es2022',
    '--module',
    'nodenext',
    '--lib',
    'es2022',
  ];
  run(join(folder, 'node_modules/.bin/tsc'), [
    ...flags,
    '--skipLibCheck',
    'false',
    '--types',
    'node',
    'use.ts',
  ]);
  check(true, 'the types compile with library checking, without the DOM’s, sharp’s or onnxruntime’s');
} finally {
  rmSync(folder, { recursive: true, force: true });
}
