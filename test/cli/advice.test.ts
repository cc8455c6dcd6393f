/** Mistakes on the command line, and the advice that they get. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createFeatureExtractor, embedImages } from 'onnx-tapir';
import { buildResNet } from '../../models/resnet.js';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { modelBytes } from '../support/graphs.js';
import { runTapir } from '../support/run.js';
import { writeHuggingFacePair } from '../support/text-models.js';

const scratch = scratchFolder();
const model = join(scratch, 'tiny.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const out = join(scratch, 'out.onnx');
const pair = join(scratch, 'clip');
writeHuggingFacePair(pair, 'clip');
writeFileSync(join(scratch, 'a.mp4'), 'no video');
const embed = [
  'embed',
  projectPath('examples/photos/sea'),
  '--model',
  model,
  '--return',
  'avgpool',
  '--out',
  join(scratch, 'dataset'),
];

describe('advice', () => {
  it.each([
    [
      'a misspelt flag',
      ['extract', model, '--retrun', 'fc', '-o', out],
      2,
      /unknown option '--retrun'.*--return\?/s,
    ],
    [
      'outputs that are missing',
      ['extract', model, '-o', out],
      2,
      /--return must be given: the outputs, by names that "tapir nodes" lists; those of the file itself are "output" \[\w+, 10\] \[OPTION/,
    ],
    ['a flag that is missing', ['extract', model, '--return', 'fc'], 2, /required option '-o, --out/],
    [
      'a folder of models',
      ['nodes', pair],
      3,
      /it is a folder; give one of its files: .*onnx.text_model\.onnx, .*onnx.vision_model\.onnx \[/,
    ],
    [
      'the text tower in place of the image tower',
      [
        'embed',
        embed[1]!,
        '--model',
        join(pair, 'onnx/text_model.onnx'),
        '--return',
        'text_embeds',
        '--out',
        out,
      ],
      2,
      /--model must be an image model: this is a text tower, which embeds texts \(tapir search --text/,
    ],
    [
      'a video',
      ['embed', join(scratch, 'a.mp4'), ...embed.slice(2)],
      2,
      /a\.mp4" cannot be embedded: .*ffmpeg -i VIDEO\.mp4 frames\/%06d\.jpg.*for models of clips with --clip/,
    ],
    [
      'a key before its name',
      ['extract', model, '--return', 'a=avgpool', '-o', out],
      2,
      /NAME=KEY.*\(avgpool=a\), got "a=avgpool"/,
    ],
    ['a key before a module', ['extract', model, '--return', 'a=layer4', '-o', out], 2, /\(layer4=a\)/],
    [
      'pairs in one flag',
      ['extract', model, '--return', 'avgpool=a,fc=b', '-o', out],
      2,
      /--return avgpool=a --return fc=b/,
    ],
    ['an unknown name', ['extract', model, '--return', 'a=nothing', '-o', out], 2, /NAME_NOT_FOUND/],
    [
      'a model that is not there',
      ['nodes', join(scratch, 'none.onnx')],
      3,
      /no file ".*none\.onnx".*MODEL_UNREADABLE/,
    ],
    [
      'a pattern that fits no network',
      ['models', 'create', '--list', 'resnext9*'],
      2,
      /a pattern that fits a network.*got "resnext9\*"/,
    ],
    ['a dataset that is not there', ['report', join(scratch, 'none')], 2, /there is no such folder/],
    [
      'a transform that is no JSON',
      [...embed, '--transform', '{"resize":3'],
      2,
      /--transform must be JSON that can be parsed/,
    ],
    [
      'options that no library has',
      [...embed, '--transform', '{"resze":3}'],
      3,
      /options of onnx-tapir have the field resize/,
    ],
    [
      'a flag that another one needs',
      ['models', 'create', 'resnet18'],
      2,
      /--out must be given: the ONNX file to write \[/,
    ],
    [
      'weights that torchvision lacks',
      ['models', 'pull', 'torchvision/nope', '-o', out],
      2,
      /tapir models create --list/,
    ],
    [
      'photos that a shell has listed',
      [...embed, 'b.jpg', 'c.jpg'],
      2,
      /embed takes one path here, got 3: give a folder, a list of paths, or a pattern in quotes/,
    ],
    [
      'two photos for a heat map',
      ['draw', 'cam', model, 'a.jpg', 'b.jpg'],
      2,
      /cam takes one path here, got 2: run it once for each photo/,
    ],
    [
      'clips for a model of photos',
      [...embed, '--clip', '8'],
      2,
      /tapir: --clip must be left out: the model's input .* has no axis of frames, got/,
    ],
    ['a name like a known model', ['nodes', 'resnet5'], 3, /nearest: "resnet-50".*tapir models list/],
  ])('for %s', async (_, args, code, message) => {
    const ended = await runTapir(args);
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).not.toMatch(/ENOENT/);
    expect(ended.code).toBe(code);
  });

  it.each([
    [
      'a folder that is missing',
      ['extract', model, '--return', 'fc', '-o', join(scratch, 'no/such/a.onnx')],
      /there is no folder ".*no\/such" \(ENOENT\); create it first/,
    ],
    [
      'a folder that is a file',
      ['models', 'split', model, '--stages', '2', '-o', join(model, 'stages')],
      /cannot write ".*stages": ENOTDIR: not a directory \[/,
    ],
    [
      'extract onto its own model',
      ['extract', model, '--return', 'fc', '-o', model],
      /it is the model that is read; choose another name \[/,
    ],
    [
      'quantize onto its own model',
      ['quantize', model, projectPath('examples/photos'), '-o', model],
      /it is the model that is read; choose another name \[/,
    ],
    [
      'bn onto its own model',
      ['models', 'bn', model, projectPath('examples/photos'), '-o', model],
      /it is the model that is read; choose another name \[/,
    ],
  ])('for %s', async (_, args, message) => {
    const ended = await runTapir(args);
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).not.toMatch(/partial|mkdir/);
    expect(ended.code).toBe(4);
  });

  it('for a model of two inputs, before the transform, unless what is asked for needs the image alone', async () => {
    const two = join(scratch, 'two.onnx');
    writeFileSync(
      two,
      modelBytes({
        inputs: [
          { name: 'image', dims: ['n', 3, 32, 32] },
          { name: 'meta', dims: ['n', 3, 1, 1] },
        ],
        outputs: [{ name: 'y', dims: ['n', 3, 1, 1] }],
        nodes: [
          { op: 'GlobalAveragePool', name: 'pool', inputs: ['image'], outputs: ['p'] },
          { op: 'Add', name: 'sum', inputs: ['p', 'meta'], outputs: ['y'] },
        ],
      }),
    );
    const of = (node: string): ReturnType<typeof runTapir> =>
      runTapir([...embed.slice(0, 2), '--model', two, '--return', node, '--out', join(scratch, 'two')]);
    const both = await of('sum');
    expect(both.stderr).toMatch(
      /^tapir: --model must be one with a single image input.*\(run one of several inputs in code with extractor\.run\(\{ "image": …, "meta": … \}\), or return a value that needs the image alone\), got "image float32/,
    );
    expect(both.code).toBe(2);
    expect((await of('pool')).stderr).toMatch(
      /tapir: --transform must be one that fits the model's input "image"/,
    );
    await using extractor = await createFeatureExtractor(two, ['sum']);
    await expect(embedImages(extractor, ['a.jpg']).next()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'model' },
    });
  });

  it('as a line of text, where the package warns', async () => {
    const ended = await runTapir([...embed, '--devices', 'cpu:0,cpu:1', '--set', 'pipeline=true']);
    expect(ended.stderr).toMatch(/^warning: the whole model fits on each of these devices/m);
    expect(ended.stderr).not.toMatch(/\(node:|trace-warnings/);
    expect(ended.code).toBe(0);
  });

  it('for a port that is taken', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const ended = await runTapir(['serve', '--model', model, '--return', 'avgpool', '--port', String(port)]);
    server.close();
    expect(ended.stderr).toMatch(/another program listens there; choose another port, or 0/);
    expect(ended.code).toBe(2);
  });
});
