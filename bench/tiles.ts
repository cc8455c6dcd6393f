/**
 * Tiles of a large picture: the most memory that `tapir embed --tile 512` holds, and tiles/s against what sharp's region reads alone give.
 *
 *   npx tsx bench/tiles.ts [--sides 20000,40000] [--rounds 3] [--model FILE --return NAME]
 *
 * The pictures are tiled TIFFs, made once in .bench. Memory is VmHWM of the command, so Linux only.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import sharp from 'sharp';
import { loadTiles } from 'onnx-tapir';
import { buildResNet } from '../models/resnet.js';
import { interleave, ratios, Report, spreadOf } from './measure.js';
import { machineText } from './record.js';

console.log(machineText());
const { values } = parseArgs({
  options: {
    sides: { type: 'string', default: '20000,40000' },
    rounds: { type: 'string', default: '3' },
    model: { type: 'string' },
    return: { type: 'string', default: 'avgpool' },
  },
});
/** Pixels of a tile's side. */
const TILE = 512;
const MOST_MB = 500;
const MOST_GROWTH = 1.1;
const LEAST_OF_SHARP = 0.8;
/** Tiles that are read in a round. */
const READ = 400;

/** A tiled TIFF of soft stripes with noise. */
async function makePicture(side: number): Promise<string> {
  const path = join('.bench', `tiled-${side}.tif`);
  if (existsSync(path)) return path;
  mkdirSync('.bench', { recursive: true });
  const small = 1024;
  const data = Uint8Array.from({ length: small * small * 3 }, (_, i) => (i * 7 + ((i * i) % 251)) & 255);
  const block = await sharp(data, { raw: { width: small, height: small, channels: 3 } })
    .blur(2)
    .png()
    .toBuffer();
  await sharp({
    create: { width: side, height: side, channels: 3, background: 'grey' },
    limitInputPixels: false,
  })
    .composite([{ input: block, tile: true }])
    .tiff({ tile: true, tileWidth: 256, tileHeight: 256, compression: 'jpeg', bigtiff: true })
    .toFile(path);
  return path;
}

/** The most memory of the command, in MB. */
async function memoryOf(picture: string, model: string): Promise<number> {
  const out = mkdtempSync(join(tmpdir(), 'tapir-tiles-'));
  const args = [
    'embed',
    picture,
    '--model',
    model,
    '--return',
    `${values.return}=v`,
    '--out',
    join(out, 'v'),
  ];
  const child = spawn(process.execPath, ['dist/lib/bin.cjs', ...args, '--tile', String(TILE)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  let most = 0;
  const look = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      most = Math.max(most, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
    } catch {
      // It has ended.
    }
  }, 100);
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  clearInterval(look);
  rmSync(out, { recursive: true });
  if (code !== 0) throw new Error(`the command ended with ${code}`);
  return most;
}

/** Regions of whole tiles, as sharp reads them. */
async function readBySharp(picture: string, side: number): Promise<void> {
  const perRow = Math.floor(side / TILE);
  for (let i = 0; i < READ; i++)
    await sharp(picture, { limitInputPixels: false, ignoreIcc: true })
      .extract({ left: (i % perRow) * TILE, top: Math.floor(i / perRow) * TILE, width: TILE, height: TILE })
      .raw()
      .toBuffer();
}

async function readTiles(picture: string): Promise<void> {
  let count = 0;
  for await (const _ of loadTiles(
    picture,
    { resize: null, crop: null, mean: null, std: null },
    { size: TILE },
  ))
    if (++count === READ) break;
}

const report = new Report();
const sides = values.sides.split(',').map(Number);
const model = values.model ?? join('.bench', 'tiny.onnx');
if (values.model === undefined) {
  mkdirSync('.bench', { recursive: true });
  writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
}
const held: number[] = [];
for (const side of sides) {
  const picture = await makePicture(side);
  held.push(await memoryOf(picture, model));
  const [first] = held;
  const bar = held.length === 1 ? `<= ${MOST_MB}` : `<= ${MOST_GROWTH} x the first, and <= ${MOST_MB}`;
  const holds = held.at(-1)! <= MOST_MB && held.at(-1)! <= MOST_GROWTH * first!;
  report.add(`memory, ${side} x ${side}, MB`, spreadOf([held.at(-1)!]), bar, holds, 0);
}
sharp.concurrency(1);
sharp.cache(false);
const picture = await makePicture(sides[0]!);
const seconds = await interleave(Number(values.rounds), {
  sharp: () => readBySharp(picture, sides[0]!),
  tiles: () => readTiles(picture),
});
const rate = ratios(seconds.sharp, seconds.tiles);
report.add(
  'tiles/s, of those of region reads with sharp',
  rate,
  `>= ${LEAST_OF_SHARP}`,
  rate.median >= LEAST_OF_SHARP,
);
process.exitCode = report.results.every(({ holds }) => holds) ? 0 : 1;
