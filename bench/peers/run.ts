/**
 * `npx tsx bench/peers/run.ts`: the same photos through the same ResNet-50 (layer4 and avgpool), here and in what one would
 * use instead, side by side in one run. README.md beside this file says how to set the peers up and what the figures mean.
 *
 * What cannot run is listed last, and the exit code is then 1, unless --without excludes it.
 *
 * Options: --photos N, --rounds N, --peers a,b, --without a,b, --python PATH, --npm DIR, --openvino-libs DIR, --batch N, --wait S,
 * --only embed|preprocess, --model FILE --return NODE, --json FILE.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { BARS_OF_OTHERS, BARS_OF_RESNET50 } from './bars.js';
import { compareAll } from './compare.js';
import { isOurs, OURS, PEER_NAMES, type PeerName } from './peer-table.js';
import { listPeers, packageVersions, type Peer } from './peers.js';
import { makePhotos } from './photos.js';
import { prepare } from './prepare.js';
import { benchPreprocess, PREPROCESS_PEERS, printPreprocess, type PreprocessReport } from './preprocess.js';
import { runCommand, waitForQuiet, type Run } from './processes.js';
import { inspectPython } from './python.js';
import { printReport } from './report.js';
import { summarize, type Rounds } from './summary.js';
import { describeMachine, machineText, reportGaps, writeRecord, type Gap } from '../record.js';

const threads = availableParallelism();
const { values } = parseArgs({
  options: {
    photos: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '5' },
    peers: { type: 'string', default: PEER_NAMES.join(',') },
    without: { type: 'string', default: '' },
    python: { type: 'string', default: process.env['TAPIR_PEERS_PYTHON'] ?? 'python3' },
    npm: { type: 'string', default: process.env['TAPIR_PEERS_NPM'] ?? '' },
    'openvino-libs': { type: 'string', default: process.env['OPENVINO_LIBS'] ?? '' },
    model: { type: 'string' },
    return: { type: 'string', multiple: true, default: [] },
    batch: { type: 'string', default: '32' },
    wait: { type: 'string', default: '0' },
    only: { type: 'string' },
    json: { type: 'string' },
  },
});
const [rounds, waitS, batch] = [Number(values.rounds), Number(values.wait), Number(values.batch)];
const { python, only } = values;
const npm = values.npm === '' ? undefined : values.npm;
const openvinoLibs = values['openvino-libs'] === '' ? undefined : values['openvino-libs'];
if ((values.model === undefined) !== (values.return.length === 0))
  throw new Error('--model and --return belong together');
const without = values.without === '' ? [] : values.without.split(',');
const names = [...new Set([OURS, ...values.peers.split(',')])].filter(
  (name) => !without.includes(name),
) as PeerName[];
const all: readonly string[] = [...PEER_NAMES, ...PREPROCESS_PEERS];
const unknown = [...names, ...without].filter((name) => !all.includes(name));
if (unknown.length > 0) throw new Error(`no such peers: ${unknown.join(', ')}; there are ${all.join(', ')}`);

/** What cannot run here. */
const gaps: Gap[] = [];
const work = mkdtempSync(join(tmpdir(), 'tapir-peers-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
// Ended from outside, it takes the peer that runs with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

/** Runs them all in turn, each round from the next one on, so that nobody always runs first or behind the same one. */
async function runRounds(
  peers: readonly Peer[],
  folder: string,
  count: number,
  isFirst: boolean,
): Promise<Rounds> {
  const runs: Record<string, Run[]> = Object.fromEntries(peers.map(({ name }) => [name, []]));
  for (let round = 0; round < count; round++) {
    for (const peer of [...peers.slice(round % peers.length), ...peers.slice(0, round % peers.length)]) {
      // A first start has no prepared models to find.
      if (isFirst) rmSync(join(work, 'cache'), { recursive: true, force: true });
      await waitForQuiet(waitS);
      const run = await runPeer(peer, folder);
      if (!run) continue;
      runs[peer.name]!.push(run);
      const others = `others used ${(100 * run.othersShare).toFixed(0)} % of the cores`;
      console.log(`  ${round + 1} ${peer.name.padEnd(26)} ${run.wallS.toFixed(2).padStart(7)} s, ${others}`);
    }
  }
  return Object.fromEntries(Object.entries(runs).filter(([name]) => !broken.has(name)));
}

/** Peers that failed once. They do not run again, and have no row. */
const broken = new Set<string>();

async function runPeer(peer: Peer, folder: string): Promise<Run | undefined> {
  if (broken.has(peer.name)) return undefined;
  try {
    return await runCommand(peer.command(folder));
  } catch (error) {
    // Without ours there is nothing to compare with.
    if (peer.name === OURS) throw error;
    broken.add(peer.name);
    const reason = (error as Error).message.trim().split('\n').at(-1)!;
    gaps.push({ name: peer.name, reason });
    console.log(`FAILED ${peer.name}: ${reason}`);
    return undefined;
  }
}

async function benchEmbed(photos: readonly string[]): Promise<unknown> {
  const given = values.model === undefined ? undefined : { file: values.model, request: values.return };
  const prepared = await prepare(work, photos, given);
  const { peers, skipped } = listPeers(names, prepared, { python, npm, openvinoLibs, batch, threads, work });
  gaps.push(...skipped);
  for (const { name, reason } of skipped) console.log(`SKIPPED ${name}: ${reason}`);
  console.log('\nstart: one photo');
  const embedding = peers.filter(({ features }) => features !== null);
  // Short as it is, a start varies more.
  const warm = await runRounds(embedding, prepared.onePhoto, 3 * rounds + 1, true);
  const starts = withoutFirst(warm);
  console.log('\nstart: one photo, the cache filled');
  const ours = embedding.filter(({ name }) => isOurs(name));
  const cachedStarts = withoutFirst(await runRounds(ours, prepared.onePhoto, 3 * rounds + 1, false));
  console.log('\nall photos');
  const full = await runRounds(peers, prepared.photos, rounds, false);
  const bars = given === undefined ? BARS_OF_RESNET50 : BARS_OF_OTHERS;
  const ended = peers.filter(({ name }) => !broken.has(name));
  const summary = summarize(ended, photos.length, full, starts, cachedStarts, bars);
  const compared = compareAll(ended);
  printReport(summary, compared);
  return {
    // A name, not a path of this machine.
    model: basename(prepared.model),
    request: prepared.request,
    batch,
    skipped: gaps,
    ...summary,
    compared,
    runs: { start: starts, cachedStart: cachedStarts, full },
  };
}

/** The peers of a record, and what was skipped in it does not count. */
function rowsOf(record: unknown): string[] {
  const { embed } = record as {
    readonly embed?: { readonly peers?: readonly { readonly name: string }[] } | null;
  };
  return (embed?.peers ?? []).map(({ name }) => name);
}

/** The first round fills the page cache, and the cache of models. */
function withoutFirst(runs: Rounds): Rounds {
  return Object.fromEntries(Object.entries(runs).map(([name, list]) => [name, list.slice(1)]));
}

function describeSetup(): unknown {
  const packages = ['onnxruntime-node', 'sharp', '@huggingface/transformers'];
  const found = inspectPython(python);
  const versions = {
    ours: packageVersions(fileURLToPath(new URL('../..', import.meta.url)), packages),
    npm: npm === undefined ? null : packageVersions(npm, packages),
    python: typeof found === 'string' ? found : found.found,
  };
  return { ...describeMachine(), versions };
}

const folder = join(work, 'photos');
const photos = await makePhotos(folder, Number(values.photos));
const meanKb = photos.reduce((sum, path) => sum + statSync(path).size, 0) / photos.length / 1000;
console.log(`${machineText()}`);
console.log(`${photos.length} photos of ${meanKb.toFixed(0)} kB, ${rounds} rounds`);
const preprocess: PreprocessReport[] = [];
for (const peer of only === 'embed' ? [] : PREPROCESS_PEERS.filter((name) => !without.includes(name))) {
  const report = await benchPreprocess(peer, folder, python, rounds, waitS);
  printPreprocess(report);
  if (report.skipped !== null) gaps.push({ name: peer, reason: report.skipped });
  preprocess.push(report);
}
const embed = only === 'preprocess' ? null : await benchEmbed(photos);

if (values.json !== undefined) {
  const date = new Date().toISOString();
  const content = {
    date,
    machine: describeSetup(),
    photos: photos.length,
    meanKb,
    rounds,
    preprocess,
    embed,
  };
  writeRecord(values.json, content, rowsOf);
}
reportGaps(gaps);
