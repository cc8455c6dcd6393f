/**
 * The fenced blocks of README and guides run, one after the other, in a folder of photos as they come in practice: one is broken, one
 * grey, one turned by its camera, one transparent, and one has a name in another script. A block that does not run says here why not.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openDataset } from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../models/resnet.js';
import { saveColumn } from '../src/datasets/files/saved-columns.js';
import { fixturePath, projectPath, scratchFolder } from './support/fixtures.js';
import { modelBytes } from './support/graphs.js';
import { isRelease } from './support/rounds.js';
import { runCommand } from './support/run.js';
import { writeHuggingFacePair } from './support/text-models.js';

/** How a block runs that does not run as it is. */
interface Change {
  /** Commands that are left out, and why. */
  readonly without?: readonly (readonly [command: RegExp, why: string])[];
  /** What is written in another way. */
  readonly instead?: Readonly<Record<string, string>>;
  /** The block of the page that comes before it in the same shell. */
  readonly after?: number;
  /** What it expects in the folder. */
  readonly given?: (folder: string) => unknown;
  /** What it prints, beside ending well. */
  readonly prints?: RegExp;
}

const NO_PHOTOS = 'it reads no photos; the tests of documentation compile it';
const ENGINES = 'scripts/test-python.sh runs it with the engine, on photos of which one is broken';
const DATABASES = 'scripts/test-databases.js runs it with the database, on the same photos';
const PACKAGES = 'it needs Python packages';
const RANKS = 'test/python/ranks.py runs the commands and ray.train, with torch and Ray';
const CLUSTER = 'it needs a cluster';
const HANDLER = 'a server or an application calls it';
const SERVER = 'it asks a service; the tests of the service run it with the same client';
const NO_CUDA = [/--device cuda/, 'no GPU here'] as const;
const NO_OPENVINO = 'OpenVINO is not installed here; its own tests run it';
const ON_CPU = { "['cuda:0', 'cuda:1']": "['cpu:0', 'cpu:1']" };
const NO_ENGINE = { "engine: 'openvino',": '', "precision: 'bfloat16',": '' };

/** By page: why none of its blocks runs, or by block why it does not, or how. The others run as they are. */
const PAGES: Readonly<Record<string, string | Readonly<Record<number, string | Change>>>> = {
  'README.md': {
    1: 'it installs the package',
    3: 'it builds a clone',
    4: {
      without: [[/npm i(?:nstall)? |engines install/, 'it installs packages']],
      instead: { '--out vectors': '--out others' },
    },
    5: 'it downloads weights, and reads no photos',
  },
  'docs/errors.md': NO_PHOTOS,
  'docs/names-sidecar.md': NO_PHOTOS,
  'docs/serve.md': SERVER,
  'docs/guides/any-size.md': { 3: PACKAGES, 4: PACKAGES },
  'docs/guides/attribution.md': {
    2: { given: (folder) => runTs(folder, trainPets) },
    3: { given: (folder) => runShell(folder, embed) },
    6: NO_PHOTOS,
  },
  'docs/guides/batch-runs.md': {
    2: 'scripts/test-pandas.sh runs it with pandas, on the same photos',
    6: 'it asks a server; test/datasets/embed/signed-urls.test.ts does the same with one',
    7: 'it reads no photos; the tests of imports run the command',
    9: { given: saveLiked },
    10: 'it measures for minutes; the tests of bench run it with fewer photos',
  },
  'docs/guides/check.md': {
    1: 'its reference comes from torch, in the block after it',
    2: PACKAGES,
    4: 'it copies the action',
    5: 'the service of the repository runs it',
  },
  'docs/guides/clips.md': {
    1: { without: [[/ffmpeg|models create|^mkdir/, 'the frames and the model are there']] },
    2: { instead: { "'vectors'": "'second'" } },
  },
  'docs/guides/coming-from-torchvision.md': {},
  'docs/guides/devices.md': NO_PHOTOS,
  'docs/guides/embedding-models.md': { 1: 'a list of files' },
  'docs/guides/engines.md': {
    1: 'it installs an engine',
    2: NO_OPENVINO,
    3: NO_PHOTOS,
    5: 'it shows what a file holds',
    6: { without: [NO_CUDA] },
    7: NO_PHOTOS,
  },
  'docs/guides/explore.md': { 1: { without: [[/serves a page/, 'it ends when it is stopped']] } },
  'docs/guides/extraction.md': NO_PHOTOS,
  'docs/guides/gradients.md': NO_PHOTOS,
  'docs/guides/int8.md': {
    1: {
      instead: { '-o resnet50.int8.onnx': '-o resnet50.int8.onnx --min-cosine 0.5 --set minNeighbours=0.1' },
    },
    2: {
      instead: {
        ...NO_ENGINE,
        'minCosine: 0.99': 'minCosine: 0.5, minNeighbours: 0.1',
        'int8.onnx': 'second.onnx',
      },
    },
  },
  'docs/guides/many-machines.md': ENGINES,
  'docs/guides/networks.md': 'it needs weights of the hub; the tests of draw segment run the command',
  'docs/guides/one-file-everywhere.md':
    'Python, C# and the browser run it; tests of photo files compare the tensors',
  'docs/guides/parameters.md': {
    1: NO_PHOTOS,
    2: NO_PHOTOS,
    3: NO_PHOTOS,
    4: NO_PHOTOS,
    5: NO_PHOTOS,
    6: { without: [[/models pull/, 'it downloads the model']] },
    7: NO_PHOTOS,
  },
  'docs/guides/pipes.md': {
    2: { after: 1, without: [[/python/, 'a program of the reader']], given: writeLists },
    3: { after: 1, without: [[/duckdb/, 'it needs the database']], given: writeLists },
    4: PACKAGES,
  },
  'docs/guides/probes.md': { 2: { instead: { 'classifier.onnx': 'second.onnx' } } },
  'docs/guides/recipes.md': {
    1: HANDLER,
    2: NO_PHOTOS,
    3: HANDLER,
    4: 'it imports sharp, which is not beside the block; test/photos/photo-kinds.test.ts runs the same calls',
    5: 'it needs ffmpeg; test/datasets/streams/frames.test.ts runs it with frames of a generator',
    6: HANDLER,
    7: 'a line for cron; the guide about batch runs has the command',
    8: 'a file for Docker',
    9: HANDLER,
  },
  'docs/guides/slurm-kubernetes.md': { 2: CLUSTER, 3: CLUSTER, 4: CLUSTER, 5: CLUSTER, 6: CLUSTER },
  'docs/guides/stages.md': NO_PHOTOS,
  'docs/guides/statistics.md': {
    2: { instead: { ...ON_CPU, 'adapted.onnx': 'second.onnx' } },
    3: { instead: { 'adapted.onnx': 'third.onnx' } },
  },
  'docs/guides/tiles.md': {
    2: { instead: { "'vectors'": "'second'" } },
    3: { instead: { '--out vectors': '--out third' } },
  },
  'docs/guides/training.md': {
    1: NO_PHOTOS,
    2: NO_PHOTOS,
    3: NO_PHOTOS,
    4: NO_PHOTOS,
    5: RANKS,
    6: RANKS,
    8: { instead: { 'pets.onnx': 'second.onnx' } },
  },
  'docs/guides/tutorial.md': {
    1: 'it installs the package',
    2: 'it downloads weights',
    3: PACKAGES,
  },
  'docs/guides/vector-databases.md': {
    2: PACKAGES,
    3: PACKAGES,
    4: DATABASES,
    5: PACKAGES,
    6: DATABASES,
    7: DATABASES,
    8: PACKAGES,
    9: PACKAGES,
    10: DATABASES,
    11: PACKAGES,
    12: PACKAGES,
    13: DATABASES,
    14: PACKAGES,
    15: { instead: { "psql -c '\\copy images (path, embedding) from stdin'": 'cat' }, prints: /写真\.jpg/ },
  },
  'docs/guides/where-it-runs.md': 'it bundles, and builds a container',
  'docs/guides/words.md': {
    1: {
      without: [
        [/npm install/, 'it installs a package'],
        [/--serve/, 'it ends when it is stopped'],
      ],
    },
    2: 'it downloads the model; the block before it has the commands',
    5: PACKAGES,
    6: 'it downloads the model, and reads no photos',
  },
};

const embed = 'tapir embed photos --model resnet50.onnx --return avgpool=embedding --out vectors';
const trainPets = `import { trainFolder } from 'onnx-tapir/train';
  await trainFolder('resnet50.onnx', 'pets', { out: 'pets.onnx', epochs: 1 });`;

interface Block {
  readonly number: number;
  readonly language: string;
  readonly code: string;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(projectPath(page), 'utf8');
  return Array.from(text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm), ([, language, code], i) => ({
    number: i + 1,
    language: language!,
    code: code!,
  }));
}

/** Leaves commands out: each begins on a line of its own and may go on after a backslash. */
function change({ code }: Block, { without = [], instead = {} }: Change): string {
  const commands = code.split(/(?<!\\)\n/);
  const kept = commands.filter((command) => !without.some(([pattern]) => pattern.test(command)));
  for (const [pattern] of without) expect(code).toMatch(pattern);
  expect(kept.join('').trim()).not.toBe('');
  let changed = kept.join('\n');
  for (const [from, to] of Object.entries(instead)) {
    expect(code).toContain(from);
    changed = changed.replaceAll(from, to);
  }
  return changed;
}

const scratch = scratchFolder();
const template = join(scratch, 'template');
const bin = join(scratch, 'bin');
/** What every command that was called ended with. */
const log = join(scratch, 'commands.log');

const resnet = (): Uint8Array =>
  buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 1000 }).bytes;

/** A network for photos of any size, with the names of DINOv2's last block; one for clips; one for patches with their places. */
function openNet(rank: 2 | 3, names: readonly [layer: string, pool: string], output: string): Uint8Array {
  const sides = rank === 2 ? ['h', 'w'] : ['t', 112, 112];
  const kernel = rank === 2 ? [16, 16] : [1, 16, 16];
  const size = kernel.reduce((product, side) => product * side, 3);
  const values = Array.from({ length: 4 * size }, (_, i) => Math.sin(1 + i * 12.9898) / size);
  return modelBytes({
    inputs: [{ name: 'input', dims: ['batch', 3, ...sides] }],
    outputs: [{ name: output, dims: ['batch', 4, ...kernel.map(() => 1)] }],
    nodes: [
      {
        name: `/${names[0]}/Conv`,
        op: 'Conv',
        inputs: ['input', 'weight'],
        outputs: ['map'],
        ints: { kernel_shape: kernel, strides: kernel },
      },
      { name: `/${names[1]}/GlobalAveragePool`, op: 'GlobalAveragePool', inputs: ['map'], outputs: [output] },
    ],
    initializers: { weight: { dims: [4, 3, ...kernel], values } },
  });
}

/** The configuration of DINOv2 on Hugging Face. */
const DINO = {
  image_processor_type: 'BitImageProcessor',
  do_resize: true,
  size: { shortest_edge: 256 },
  resample: 3,
  do_center_crop: true,
  crop_size: { height: 224, width: 224 },
  do_rescale: true,
  rescale_factor: 1 / 255,
  do_normalize: true,
  image_mean: [0.485, 0.456, 0.406],
  image_std: [0.229, 0.224, 0.225],
  do_convert_rgb: true,
};

function naflexNet(): Uint8Array {
  return modelBytes({
    inputs: [
      { name: 'pixel_values', dims: ['batch', 'patches', 768] },
      { name: 'pixel_attention_mask', dims: ['batch', 'patches'], elemType: 6 },
      { name: 'spatial_shapes', dims: ['batch', 2], elemType: 7 },
    ],
    outputs: [{ name: 'pooler_output', dims: ['batch', 768] }],
    nodes: [
      { op: 'Cast', inputs: ['pixel_attention_mask'], outputs: ['mask'], ints: { to: 1 } },
      { op: 'Unsqueeze', inputs: ['mask', 'last'], outputs: ['column'] },
      { op: 'Mul', inputs: ['pixel_values', 'column'], outputs: ['masked'] },
      { op: 'ReduceMean', inputs: ['masked'], outputs: ['mean'], ints: { axes: [1], keepdims: 0 } },
      { op: 'Cast', inputs: ['spatial_shapes'], outputs: ['shapes'], ints: { to: 1 } },
      { op: 'ReduceMean', inputs: ['shapes'], outputs: ['side'], ints: { axes: [1], keepdims: 1 } },
      { op: 'Add', inputs: ['mean', 'side'], outputs: ['pooler_output'] },
    ],
    initializers: { last: { dims: [1], values: [2], elemType: 'int64' } },
  });
}

function write(folder: string, files: Readonly<Record<string, Uint8Array | string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

/** A folder with all that the pages name, and commands that note how they end. */
function makeTemplate(): void {
  execFileSync(process.execPath, [projectPath('scripts/dirty-photos.js'), join(template, 'photos')]);
  for (const folder of ['new-photos', 'moved/photos', 'slides', 'part-a', 'part-b', 'models'])
    cpSync(join(template, 'photos'), join(template, folder), { recursive: true });
  const photo = (name: string): Buffer => readFileSync(join(template, 'photos', name));
  // Frames of a clip have one size.
  const frames = ['city/city-0.jpg', 'sea/sea-0.jpg'];
  for (let i = 0; i < 40; i++)
    write(template, { [`videos/run/${String(i).padStart(6, '0')}.png`]: photo(frames[i % 2]!) });
  for (let i = 0; i < 40; i++)
    write(template, {
      [`videos/海/${String(i).padStart(6, '0')}.jpg`]: photo(i === 3 ? 'broken.jpg' : 'sea/sea-1.jpg'),
    });
  for (const label of ['sea', 'city'])
    for (let i = 0; i < 4; i++)
      write(template, {
        [`pets/${label === 'sea' ? 'beagle' : 'cat'}/${i}.jpg`]: photo(`${label}/${label}-${i}.jpg`),
      });
  write(template, {
    'pets/cat/broken.jpg': photo('broken.jpg'),
    // A photo of its own each: transparent, grey, turned.
    'cat.jpg': photo('transparent.png'),
    'dog.jpg': photo('grey.jpg'),
    'photo.jpg': photo('turned.jpg'),
    'photos/cat.jpg': photo('transparent.png'),
    'slides/a.tif': readFileSync(fixturePath('preprocess/images/own_lzw.tiff')),
    'imagenet.txt': Array.from({ length: 1000 }, (_, i) => `class ${i}`).join('\n'),
    'labels.txt': 'dog\ncat\n',
    'package.json': '{ "type": "module" }',
    'resnet50.onnx': resnet(),
    'resnet18.onnx': resnet(),
    'model.onnx': resnet(),
    'M.onnx': resnet(),
    'dinov2.onnx': openNet(2, ['blocks/blocks.11', 'pool'], 'output'),
    'dinov2/model.onnx': openNet(2, ['blocks/blocks.11', 'pool'], 'pooler_output'),
    'r3d_18.onnx': openNet(3, ['layer4', 'avgpool'], 'output'),
    'dinov2/preprocessor_config.json': JSON.stringify(DINO),
    'siglip2-naflex/vision_model.onnx': naflexNet(),
  });
  for (const folder of ['clip', 'clip-vit-base-patch32'])
    writeHuggingFacePair(join(template, folder), 'clip');
  write(template, {
    'siglip/onnx/vision_model.onnx': openNet(2, ['layer', 'pool'], 'pooler_output'),
    'siglip/preprocessor_config.json': readFileSync(join(template, 'clip/preprocessor_config.json')),
    'q.npy': npyOf(readClipVector()),
  });
  mkdirSync(join(template, 'node_modules'));
  symlinkSync(projectPath('.'), join(template, 'node_modules/onnx-tapir'));
  const tapir = `#!/bin/sh
'${process.execPath}' '${projectPath('dist/lib/bin.cjs')}' "$@"
code=$?
echo "$code tapir $*" >> '${log}'
exit $code
`;
  write(bin, { tapir, npx: '#!/bin/sh\nexec "$@"\n' });
  for (const name of ['tapir', 'npx']) chmodSync(join(bin, name), 0o755);
}

function readClipVector(): Float32Array {
  return Float32Array.from({ length: 12 }, (_, i) => Math.sin(i + 1));
}

/** A vector as NumPy writes it. */
function npyOf(vector: Float32Array): Uint8Array {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${vector.length},), }`;
  const text = `\u0093NUMPY\u0001\u0000${String.fromCharCode(118, 0)}${header.padEnd(117)}\n`;
  return Buffer.concat([Buffer.from(text, 'latin1'), Buffer.from(vector.buffer)]);
}

async function runTs(folder: string, code: string): Promise<string> {
  write(folder, { 'block.mts': code });
  const loader = import.meta.resolve('tsx');
  const {
    code: ended,
    stdout,
    stderr,
  } = await runCommand(process.execPath, ['--import', loader, 'block.mts'], { cwd: folder });
  expect(ended, stderr).toBe(0);
  return stdout;
}

/** Runs commands one after the other. Each ends well, or says that a photo failed. */
async function runShell(folder: string, code: string): Promise<string> {
  writeFileSync(log, '');
  const script = `set -o pipefail -E\nshopt -s expand_aliases\ntrap '[ $? -le 1 ] || exit' ERR\n${code}\ntrue`;
  const env = { PATH: `${bin}:${process.env['PATH']}`, BROWSER: 'true' };
  const { code: ended, stdout, stderr } = await runCommand('bash', ['-c', script], { cwd: folder, env });
  expect(ended, `${stderr}\n${stdout}`).toBe(0);
  for (const line of readFileSync(log, 'utf8').trim().split('\n'))
    if (line.startsWith('1 ')) expect(stderr + stdout, line).toMatch(/broken\.jpg|海: .*000003\.jpg/);
    else expect(line, stderr).toMatch(/^(?:0 |$)/);
  return stdout;
}

/** Embeds, and saves the column that the guide reads. */
async function saveLiked(folder: string): Promise<void> {
  await runShell(folder, embed);
  const values = ['sea/sea-0.jpg', 'sea/sea-1.jpg', '海/写真.jpg'].map(
    (path) => [{ path, crop: null, tile: null, clipStart: null }, 'yes'] as const,
  );
  const defaults = ['city/city-0.jpg', 'grey.jpg'].map(
    (path) => [{ path, crop: null, tile: null, clipStart: null }, 'no'] as const,
  );
  const dataset = await openDataset(join(folder, 'vectors'));
  await saveColumn(dataset, { name: 'liked', values, defaults, change: false });
}

function writeLists(folder: string): void {
  const paths = ['photos/sea/sea-0.jpg', 'photos/broken.jpg', 'photos/海/写真.jpg', 'photos/grey.jpg'];
  write(folder, {
    'list.txt': `${paths.join('\n')}\n`,
    'list.json': paths.map((file) => JSON.stringify({ file, label: 'a' })).join('\n'),
  });
}

beforeAll(makeTemplate);

it('knows every page that has blocks', () => {
  const listed = execFileSync('git', ['ls-files', 'README.md', 'docs/*.md', 'docs/guides/*.md'], {
    cwd: projectPath('.'),
    encoding: 'utf8',
  });
  const pages = listed.trim().split('\n');
  const own = pages.filter((page) => !/^docs\/(?:api|decisions)\//.test(page) && blocksOf(page).length > 0);
  expect(Object.keys(PAGES).toSorted()).toEqual(own.toSorted());
});

/** Blocks take up to six seconds each, as their readers run them. In a check these run, and all of them where a page or a command has changed (`--changed`), or before a release. */
const FIRST_PAGES = new Set(['README.md', 'docs/guides/tutorial.md']);
const isWhole = isRelease || process.env['TAPIR_GUIDES'] !== undefined;

describe.each(Object.entries(PAGES))('%s', (page, entry) => {
  const blocks = blocksOf(page);
  const folder = join(scratch, page.replaceAll(/\W/g, '-'));
  beforeAll(() => {
    if (typeof entry !== 'string') cpSync(template, folder, { recursive: true, verbatimSymlinks: true });
  });

  it('has the blocks that are listed here', () => {
    const listed = typeof entry === 'string' ? [] : Object.keys(entry).map(Number);
    expect(blocks.length).toBeGreaterThan(0);
    expect(listed.filter((number) => number > blocks.length)).toEqual([]);
  });

  for (const block of blocks) {
    const how = typeof entry === 'string' ? entry : (entry[block.number] ?? {});
    const isLeftOut = typeof how === 'string' || !(isWhole || FIRST_PAGES.has(page));
    it.skipIf(isLeftOut)(
      `#${block.number}${isLeftOut ? ` (NOT RUN: ${typeof how === 'string' ? how : 'before a release, or with --changed'})` : ''}`,
      async () => {
        if (typeof how === 'string') return;
        await how.given?.(folder);
        const before = how.after === undefined ? '' : blocks[how.after - 1]!.code;
        const code = `${before}\n${change(block, how)}`;
        const isShell = block.language === 'bash' || block.language === 'sh';
        expect(['bash', 'sh', 'ts']).toContain(block.language);
        const printed = await (isShell ? runShell(folder, code) : runTs(folder, code));
        if (how.prints) expect(printed).toMatch(how.prints);
      },
      300_000,
    );
  }
});
