/** The built command: what it prints, what it writes, how it ends. */
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openModel, type Manifest, type PrunePlan } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { ERROR_CODES } from '../support/error-codes.js';
import { exitCodeOf } from '../../src/cli/terminal/exit-code.js';
import { readReturnFlags } from '../../src/cli/flags/return-flags.js';
import { formatTable } from '../../src/cli/terminal/table.js';
import { TapirError } from '../../src/base/errors.js';
import { buildResNet } from '../../models/resnet.js';
import { fixturePath, projectPath, scratchFolder, sharedFixtures, sharedNote } from '../support/fixtures.js';
import { modelBytes } from '../support/graphs.js';
import { AUTO_TRANSFORM, runTapir } from '../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const photos = join(scratch, 'photos');
cpSync(projectPath('examples/photos'), photos, { recursive: true, filter: (file) => !file.endsWith('.ts') });
const embed = ['embed', photos, '--model', model, '--return', 'avgpool=embedding', '--out'];

/** The manifest of the last event. */
const doneOf = (stdout: string): Manifest =>
  (JSON.parse(stdout.trim().split('\n').at(-1)!) as { manifest: Manifest }).manifest;

describe('tapir nodes', () => {
  it('prints a table, a tree cut at a depth, and JSON', async () => {
    const all = await runTapir(['nodes', model]);
    expect(all).toMatchObject({ code: 0, stderr: '' });
    expect(all.stdout).toMatch(/^name +op +dtype +dims +channels +scale +marks +tensor\n/);
    expect(all.stdout).toMatch(
      /\n {4}layer1\.0\.conv1 +Conv +float32 +\[batch, 4, 56, 56\] +4 +1\/4 +\/layer1/,
    );
    const top = await runTapir(['nodes', model, '--depth', '1']);
    expect(
      top.stdout
        .split('\n')
        .slice(1, -1)
        .map((line) => line.split(' ')[0]),
    ).toEqual([
      'input',
      'conv1',
      'bn1',
      'relu',
      'maxpool',
      'layer1',
      'layer2',
      'layer3',
      'layer4',
      'avgpool',
      'flatten',
      'fc',
    ]);
    const json = JSON.parse((await runTapir(['nodes', model, '--json'])).stdout) as {
      nodes: { name: string; channels: number }[];
    };
    expect(json.nodes.find(({ name }) => name === 'avgpool')).toMatchObject({
      channels: 128,
      dtype: 'float32',
    });
  });

  it('marks constants, sizes, folded and quantised nodes', async () => {
    const constants = join(scratch, 'constants.onnx');
    writeFileSync(
      constants,
      modelBytes({
        inputs: ['x'],
        outputs: ['y'],
        initializers: { w: [1] },
        nodes: [
          { op: 'Neg', inputs: ['w'], outputs: ['c'] },
          { op: 'Add', inputs: ['x', 'c'], outputs: ['y'] },
          { op: 'Shape', inputs: ['x'], outputs: ['s'] },
          { op: 'QuantizeLinear', inputs: ['y', 'w'], outputs: ['q'] },
        ],
      }),
    );
    const { stdout } = await runTapir(['nodes', constants, '--all']);
    expect(stdout).toMatch(/tensor:c +Neg .* constant +c\n/);
    expect(stdout).toMatch(/tensor:s +Shape +int64 .* sizes +s\n/);
    expect(stdout).toMatch(/q +QuantizeLinear +uint8 .* quantized +q\n/);
    const folded = await runTapir(['nodes', fixturePath('names/resnet50.ts.skeleton.onnx')]);
    expect(folded.stdout).toMatch(/\nbn1 +Conv .* folded +\/conv1\/Conv_output_0\n/);
  });

  it('shows types beside values that are no tensors', async () => {
    const sequence = join(scratch, 'sequence.onnx');
    writeFileSync(
      sequence,
      modelBytes({
        inputs: ['x'],
        outputs: ['y'],
        nodes: [
          { op: 'SequenceConstruct', name: 'pack', inputs: ['x'], outputs: ['pair'] },
          { op: 'SequenceLength', inputs: ['pair'], outputs: ['y'] },
        ],
      }),
    );
    const { stdout, stderr } = await runTapir(['nodes', sequence]);
    expect(stderr).toBe('');
    expect(stdout).toMatch(/pack +SequenceConstruct/);
    expect(stdout).toMatch(/x +input +float32 +\[n\]/);
  });

  it('lists a model that ONNX Runtime refuses, without shapes', async () => {
    const ended = await runTapir(['nodes', fixturePath('graphs/generated/ort_behaviour/opset99.onnx')]);
    expect(ended.code).toBe(0);
    expect(ended.stderr).toContain('shapes are unknown');
  });
});

describe('tapir extract', () => {
  it('writes a plain ONNX file and says what became of the model', async () => {
    const out = join(scratch, 'cut.onnx');
    const ended = await runTapir([
      'extract',
      model,
      '--return',
      'layer2=features',
      '--return',
      'layer1',
      '-o',
      out,
    ]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toContain('last node under module "layer2"');
    expect((await openModel(out)).outputs.map(({ name }) => name)).toEqual(['features', 'layer1']);
    const again = ['extract', model, '--return', 'layer2', '-o', out, '--json'];
    expect((await runTapir(again)).code).toBe(4);
    const json = await runTapir([...again, '--overwrite']);
    expect((JSON.parse(json.stdout) as PrunePlan).kept.inputs).toEqual(['input']);
    expect((await openModel(out)).outputs.map(({ name }) => name)).toEqual([
      '/layer2/layer2.0/relu_2/Relu_output_0',
    ]);
  });
});

describe('tapir extract, options', () => {
  const run = (...flags: string[]): ReturnType<typeof runTapir> =>
    runTapir(['extract', model, '-o', join(scratch, 'options.onnx'), '--overwrite', ...flags]);

  it('computes parts in the graph, and verifies before it writes', async () => {
    const flags =
      '--return layer4=map --return layer3=vector --pool vector=avg --set l2Normalize=true --input image-uint8 --verify --output-dtype float16';
    const ended = await run(...flags.split(' '));
    expect(ended, ended.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toContain('equal, bit for bit');
    const written = await openModel(join(scratch, 'options.onnx'));
    expect(written.outputs.map(({ name, dtype, dims }) => [name, dtype, dims])).toEqual([
      ['map', 'float16', ['batch', 128, 7, 7]],
      ['vector', 'float16', ['batch', 64]],
    ]);
    expect(written.inputs).toEqual([{ name: 'image', dtype: 'uint8', dims: ['batch', 224, 224, 3] }]);
  });

  it('says which sizes it made up, and takes others', async () => {
    const open = join(scratch, 'open.onnx');
    const x = { name: 'x', dims: ['n', 3, 'h', 'w'] };
    writeFileSync(
      open,
      modelBytes({ inputs: [x], outputs: ['y'], nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }] }),
    );
    const verify = (...flags: string[]): ReturnType<typeof runTapir> =>
      runTapir([
        'extract',
        open,
        '--return',
        'y',
        '-o',
        join(scratch, 'y.onnx'),
        '--overwrite',
        '--verify',
        ...flags,
      ]);
    expect((await verify()).stdout).toContain(
      'x was fed as [2, 3, 224, 224]; dims[2] = 224 and dims[3] = 224 made up, as the file leaves it open (--size or --input-shape state it)',
    );
    expect((await verify('--size', 'h=48')).stdout).toContain(
      'x was fed as [2, 3, 48, 224]; dims[3] = 224 made up,',
    );
    const given = await verify('--input-shape', 'x=1,3,48,320');
    expect(given.stdout).toMatch(/on 1 row of[^]*\[1, 3, 48, 320\]/);
    expect(given.stdout).not.toContain('leaves');
    const refused = await verify('--size', 'height=48');
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('"x" [n, 3, h, w]') as string });
  });

  it('writes a cut that differs by a rounding step of float16', async () => {
    const half = join(scratch, 'half.onnx');
    const wave = (...dims: number[]): { dims: number[]; values: number[] } => ({
      dims,
      values: Array.from(
        { length: dims.reduce((total, size) => total * size, 1) },
        (_, i) => Math.sin(i) / 2,
      ),
    });
    const halves = ['w', 's', 'b'].map((name) => ({
      op: 'Cast',
      inputs: [`${name}32`],
      outputs: [name],
      ints: { to: 10 },
    }));
    writeFileSync(
      half,
      modelBytes({
        inputs: [{ name: 'x', dims: ['n', 6, 8], elemType: 10 }],
        outputs: [{ name: 'y', dims: ['n', 6, 8], elemType: 10 }],
        initializers: { w32: wave(8, 8), s32: wave(8), b32: wave(8) },
        nodes: [
          ...halves,
          { op: 'MatMul', inputs: ['x', 'w'], outputs: ['m'] },
          { op: 'LayerNormalization', inputs: ['m', 's', 'b'], outputs: ['y'] },
        ],
      }),
    );
    const flags = '--return tensor:m --output-dtype float32 --verify -o'.split(' ');
    const ended = await runTapir(['extract', half, ...flags, join(scratch, 'half-cut.onnx')]);
    expect(ended, ended.stdout + ended.stderr).toMatchObject({ code: 0 });
    expect(ended.stdout).toMatch(/largest difference 0\.0+/);
    expect(ended.stdout).toContain('written: ');
  });

  it('cuts at inputs inside, and refuses what does not go together', async () => {
    expect((await run('--return', 'fc', '--inputs', 'layer4')).code).toBe(0);
    const json = await run('--return', 'fc', '--verify', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ verified: { isEqual: true } });
    expect((await run('--return', 'fc', '--inputs', 'nothing')).code).toBe(2);
    expect((await run('--return', 'fc', '--set', 'weights=both')).code).toBe(2);
    expect((await run('--return', 'fc', '--pool', 'other=avg')).code).toBe(2);
    expect((await run('--return', 'fc', '--pool', 'middle')).code).toBe(2);
  });
});

describe('tapir embed on several devices', () => {
  it('gives each of them batches', async () => {
    const ended = await runTapir([
      ...embed,
      join(scratch, 'parallel'),
      '--devices',
      'cpu:0, cpu:1',
      '--set',
      'threads=1',
    ]);
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(ended.stdout).toMatch(/^24 of 24 images embedded in .* on cpu:0, cpu:1\n/);
  });

  it.each([
    [['--devices', 'cpu:0,cpu:0'], /"cpu:0" is named twice/],
    [['--devices', 'cpu:0,gpu'], /tapir: --devices must be/],
    [['--devices', 'cpu:0', '--device', 'cpu'], /tapir: --device must be left out where --devices is given/],
    [['--format', 'jsonl'], /tapir: --format must be npy, arrow or parquet for a dataset/],
  ])('refuses %j', async (flags, message) => {
    const ended = await runTapir([...embed, join(scratch, 'refused'), ...flags]);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(message);
  });
});

describe('tapir embed', () => {
  it('embeds what standard input lists, and stops while it waits for more', async () => {
    const out = join(scratch, 'listed');
    const list = `${join(photos, 'sea/sea-0.jpg')}\nnone.jpg\n`;
    const ended = await runTapir(['embed', '-', ...embed.slice(2), out], { input: list });
    expect(ended.stdout, ended.stderr).toContain('1 of 2 images embedded');
    expect(ended.stderr).toContain('none.jpg: ');
    const stopped = join(scratch, 'stopped');
    const waiting = await runTapir(['embed', '-', ...embed.slice(2), stopped], {
      input: list,
      isInputOpen: true,
      signal: { name: 'SIGINT', when: () => existsSync(stopped) },
    });
    expect(waiting.code).toBe(130);
  });

  it('embeds a folder, in plain lines where no terminal is', async () => {
    const out = join(scratch, 'dataset');
    const ended = await runTapir([...embed, out]);
    expect(ended, ended.stderr).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM });
    expect(ended.stdout).toContain('24 of 24 images embedded');
    expect(ended.stdout).toContain(`embedding: 24 rows of [128] float32 in ${out}/features/embedding`);
    const again = await runTapir([...embed, out]);
    expect(again.stdout).toMatch(/^nothing new: 24 images embedded before\n {2}embedding: 24 rows/);
    const json = await runTapir([
      ...embed,
      out,
      '--overwrite',
      '--json',
      '--batch',
      '7',
      '--set',
      'dtype=float16',
    ]);
    const events = json.stdout.trim().split('\n');
    const { manifest, ...done } = JSON.parse(events.at(-1)!) as { manifest: Manifest };
    expect(manifest.run?.batch).toBe(7);
    expect(done).toEqual({
      event: 'done',
      embedded: 24,
      failed: 0,
      skipped: 0,
      duplicates: 0,
      changed: 0,
      missing: 0,
      removed: 0,
      reused: 0,
    });
    expect(JSON.parse(events.at(-2)!)).toMatchObject({
      event: 'progress',
      done: 24,
      failed: 0,
      devices: [{ device: expect.stringMatching(/^cpu/) as string }],
    });
  });

  it('computes parts in the graph, and opens a fixed batch', async () => {
    const fixed = join(scratch, 'fixed.onnx');
    const dims = [2, 3, 224, 224];
    const pool = { op: 'GlobalAveragePool', inputs: ['x'], outputs: ['y'] };
    const mix = [
      { op: 'ReduceMean', name: 'mix', inputs: ['y'], outputs: ['m'], ints: { axes: [0], keepdims: 1 } },
      { op: 'Sub', inputs: ['y', 'm'], outputs: ['z'] },
    ];
    writeFileSync(
      fixed,
      modelBytes({
        inputs: [{ name: 'x', dims }],
        outputs: [{ name: 'z', dims: [2, 3, 1, 1] }],
        nodes: [pool, ...mix],
      }),
    );
    const flags = (name: string, out: string): string[] =>
      `--model ${fixed} --return ${name}=v --pool avg --set l2Normalize=true --set dynamicBatch=true --json --out ${out}`.split(
        ' ',
      );
    const right = await runTapir(['embed', photos, ...flags('y', join(scratch, 'opened'))]);
    expect(right, right.stderr).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM.replace('model', 'fixed') });
    expect(doneOf(right.stdout)).toMatchObject({
      run: { batchMode: 'dynamic' },
      features: { v: { dims: [3], rows: 24 } },
      request: [{ computed: ['pool avg', 'l2Normalize'] }],
    });
    const mixed = await runTapir(['embed', photos, ...flags('z', join(scratch, 'mixed'))]);
    expect(mixed.stderr).toContain('note: the batch stays 2, because');
  });

  it('ends with 1 and a list if images failed', async () => {
    const some = join(scratch, 'some');
    mkdirSync(some);
    cpSync(join(photos, 'sea/sea-0.jpg'), join(some, 'good.jpg'));
    writeFileSync(join(some, 'bad.jpg'), 'no image');
    const out = join(scratch, 'some-out');
    const nodes = ['--return', 'fc', '--return', 'layer2=map'];
    const ended = await runTapir(['embed', some, '--model', model, ...nodes, '--out', out]);
    expect(ended.stdout).toMatch(
      /fc: .*\n  map: .*\n    a map, which search compares place by place; --pool map=avg gives a vector\n/,
    );
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('1 of 2 images could not be embedded:\n  bad.jpg: its format is not');
    expect(existsSync(join(out, 'manifest.json'))).toBe(true);
  });
});

describe('wrong input ends with one clear message and the right code', () => {
  const locked = join(scratch, 'locked');
  mkdirSync(locked);
  chmodSync(locked, 0o500);
  const out = join(scratch, 'no-dataset');
  const base = ['--return', 'avgpool', '--out', out];

  it.each([
    ['no command', [], 2, /Usage: tapir/],
    ['an unknown command', ['embedd'], 2, /unknown command 'embedd'/],
    ['a missing flag', ['embed', photos, '--out', out], 2, /--model <file>/],
    ['a wrong number', ['embed', photos, '--model', model, ...base, '--batch', 'many'], 2, /whole number/],
    [
      'a wrong choice',
      ['embed', photos, '--model', model, ...base, '--transform', 'resnet'],
      2,
      /tapir: --transform must be "auto", "ImageNet1K_V1", .*got "resnet"/,
    ],
    [
      'a missing model',
      ['embed', photos, '--model', '/no/model.onnx', ...base],
      3,
      /there is no file "\/no\/model.onnx"/,
    ],
    ['no model', ['nodes', projectPath('README.md')], 3, /looks like plain text/],
    [
      'an unknown node',
      ['embed', photos, '--model', model, '--return', 'layer5', '--out', out],
      2,
      /nearest are "layer/,
    ],
    ['an empty key', ['extract', model, '--return', 'layer1=', '-o', out], 2, /NAME or NAME=KEY/],
    [
      'a file of another kind',
      ['embed', model, '--model', model, ...base],
      2,
      /its extension is not supported; give a folder/,
    ],
    [
      'a folder without images',
      ['embed', projectPath('src'), '--model', model, ...base],
      2,
      /it holds no image/,
    ],
    [
      'a pattern without images',
      ['embed', `${photos}/*.nothing`, '--model', model, ...base],
      2,
      /no image fits the pattern/,
    ],
    [
      'an unusable device',
      ['embed', photos, '--model', model, ...base, '--device', 'cuda'],
      3,
      /\ntapir: cuda:0 cannot be used: .*missing beside onnxruntime-node/,
    ],
    ['an unknown device', ['embed', photos, '--model', model, ...base, '--device', 'gpu'], 2, /--device/],
    ['a file in the way', [...embed, join(model, 'x')], 4, /cannot write/],
    // Elsewhere /proc is an ordinary place.
    ...(process.platform === 'linux'
      ? [
          [
            'a place that takes no folders',
            [...embed, join('/proc', 'x', 'y')],
            4,
            /cannot write "\/proc\/x\/y"/,
          ] as const,
        ]
      : []),
    ['a folder of something else', [...embed, photos], 4, /it is not empty and holds no dataset/],
    [
      'a folder that is not there',
      ['extract', model, '--return', 'fc', '-o', '/no/folder/x.onnx'],
      4,
      /cannot write/,
    ],
  ] as const)('%s', async (_what, args, code, message) => {
    const ended = await runTapir(args);
    expect(ended.code, ended.stderr).toBe(code);
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).not.toContain('    at ');
    expect(existsSync(join(out, 'manifest.json'))).toBe(false);
  });

  it('prints help and version on standard output', async () => {
    const help = await runTapir(['--help']);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toMatch(/^ {2}embed +embed photos/m);
    const { version } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as { version: string };
    expect(await runTapir(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` });
  });
});

describe.skipIf(sharedFixtures === undefined)(`the main job${sharedNote}`, () => {
  it('embeds 200 of 203 photos, lists 3 errors, and ends with 1', async () => {
    const out = join(scratch, 'main-job');
    const source = join(sharedFixtures!, 'photos/set');
    const ended = await runTapir([
      'embed',
      source,
      '--model',
      model,
      '--return',
      'avgpool=embedding',
      '--out',
      out,
    ]);
    expect(ended.code).toBe(1);
    expect(ended.stdout).toContain('200 of 203 images embedded');
    expect(ended.stderr.match(/\[IMAGE_\w+\]/g)).toHaveLength(3);
  });
});

describe('parts of the command', () => {
  it('read --return as a list, or as pairs once a key is given', () => {
    expect(readReturnFlags(['a', 'b'])).toEqual(['a', 'b']);
    expect(readReturnFlags(['a=x', 'b'])).toEqual([
      ['a', 'x'],
      ['b', 'b'],
    ]);
    expect(readReturnFlags(['a=b=c'])).toEqual([['a=b', 'c']]);
  });

  it('format tables', () => {
    expect(
      formatTable(
        [
          ['a', '1'],
          ['bbb', '22'],
        ],
        { columns: undefined, right: [1] },
      ),
    ).toBe('a     1\nbbb  22\n');
  });

  it('have an exit code for every error', () => {
    for (const code of ERROR_CODES) {
      // The details do not matter for the exit code.
      expect([2, 3, 4, 5, 70]).toContain(exitCodeOf(new TapirError(code, '', { details: {} as never })));
    }
    expect(exitCodeOf(new Error('defect'))).toBe(70);
  });
});
