/**
 * `npx tsx bench/tars.ts [tars]`: tars of 12 photos on a server of this machine (40 by default), each embedded as a pod does it: fetched, and
 * piped into `tapir embed -`. Every third process is killed in the middle and started again. Says whether the merged parts have the rows
 * and vectors of one run over the list of URLs.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDataset } from 'onnx-tapir';
import { buildResNet } from '../models/resnet.js';
import { makeTar } from '../test/support/archives.js';

const count = Number(process.argv[2] ?? 40);
const PHOTOS = 12;
const AT_ONCE = 2;
const scratch = mkdtempSync(join(tmpdir(), 'tapir-tars-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const at = (name: string): string => join(scratch, name);
writeFileSync(
  at('model.onnx'),
  buildResNet(0, { blocks: [1, 1, 1, 1], width: 8, size: 224, classes: 10 }).bytes,
);

const examples = new URL('../examples/photos/', import.meta.url);
const photos = readdirSync(examples, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.jpg'))
  .toSorted()
  .map((file) => readFileSync(new URL(file, examples)));
const numberOf = (n: number): string => String(n).padStart(5, '0');
/** Each photo has a comment of its own after its end, which no decoder reads. */
const tars = await Promise.all(
  Array.from({ length: count }, (_, tar) =>
    makeTar(
      Array.from({ length: PHOTOS }, (_, i) => ({
        name: `${numberOf(tar * PHOTOS + i)}.jpg`,
        bytes: Buffer.concat([photos[(tar * PHOTOS + i) % photos.length]!, Buffer.from(`${tar} ${i}`)]),
      })),
    ),
  ),
);
const server = createServer((request, response) => {
  const tar = tars[Number.parseInt(basename(request.url!), 10)];
  if (tar) response.setHeader('etag', `"${tar.length}"`);
  response.writeHead(tar ? 200 : 404).end(tar);
}).listen(0, '127.0.0.1');
await once(server, 'listening');
const bucket = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const flags = ['--model', at('model.onnx'), '--return', 'avgpool=embedding'];
const transform = ['--transform', '{"resize":232,"crop":224}', '--batch', '4'];
function embed(source: string, out: string, ...more: string[]): ChildProcess {
  const words = ['dist/lib/bin.cjs', 'embed', source, ...flags, ...transform, '--out', out, ...more];
  return spawn(process.execPath, words, { stdio: ['pipe', 'ignore', 'inherit'] });
}

/** What a pod runs. Returns the signal that ended it, if one did. */
async function runPod(index: number, killAfterMs?: number): Promise<NodeJS.Signals | null> {
  const out = at(`vectors/parts/${index}-of-${count}`);
  const { body } = await fetch(`${bucket}/${numberOf(index)}.tar`);
  const pod = embed('-', out, '--set', 'inputFormat=tar', '--set', 'shardSize=4');
  const ended = once(pod, 'exit');
  const fed = pipeline(Readable.fromWeb(body as never), pod.stdin!).catch(() => {});
  if (killAfterMs !== undefined) void sleep(killAfterMs).then(() => pod.kill('SIGKILL'));
  const [code, signal] = (await ended) as [number | null, NodeJS.Signals | null];
  await fed;
  if (code !== 0 && signal === null) throw new Error(`tar ${index} ended with ${code}`);
  return signal;
}

let [killed, started] = [0, 0];
const indices = Array.from({ length: count }, (_, i) => i).values();
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (const index of indices) {
      started++;
      // Killed at some time from before the first shard to after the last; null if it had ended by itself.
      const isKilled = index % 3 === 0 && (await runPod(index, 400 + ((index * 331) % 1600))) !== null;
      if (isKilled) killed++;
      if (isKilled || index % 3 !== 0) await runPod(index);
    }
  }),
);
const [merged] = (await once(
  spawn(process.execPath, ['dist/lib/bin.cjs', 'merge', at('vectors')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  }),
  'exit',
)) as [number | null];
writeFileSync(at('list.txt'), tars.map((_, i) => `${bucket}/${numberOf(i)}.tar`).join('\n'));
const [alone] = (await once(embed(at('list.txt'), at('alone'), '--allow-http'), 'exit')) as [number | null];
server.close();

async function vectorsOf(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const { path, vector } of (await openDataset(folder)).vectors('embedding'))
    found.set(
      basename(path!),
      Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('hex'),
    );
  return found;
}
const [parts, whole] = [await vectorsOf(at('vectors')), await vectorsOf(at('alone'))];
const differing = [...whole].filter(([name, vector]) => parts.get(name) !== vector).length;
console.log(
  `${started} tars, ${killed} processes killed and started again; merge ${merged}, one run ${alone}; rows ${parts.size} of ${count * PHOTOS}, in one run ${whole.size}; vectors that differ: ${differing}`,
);
if (parts.size !== count * PHOTOS || whole.size !== parts.size || differing > 0) process.exitCode = 1;
