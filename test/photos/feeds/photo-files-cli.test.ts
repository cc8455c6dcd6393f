/** Commands that write and take photo files: what they give is what the ordinary model gives. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, openModel } from 'onnx-tapir';
import { createService } from 'onnx-tapir/serve';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';
import { postImage, type EmbedReply } from '../../support/service.js';

const scratch = scratchFolder();
const model = join(scratch, 'net.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const PHOTO = projectPath('examples/photos/sea/sea-0.jpg');
const NODES = ['--return', 'avgpool=v', '--transform', 'Bicubic256'] as const;

async function tapir(...flags: string[]): Promise<string> {
  const ended = await runTapir(flags);
  expect(ended, `${flags.join(' ')}: ${ended.stderr}`).toMatchObject({ code: 0 });
  return ended.stdout;
}

/** The vector of the photo by `tapir embed`. */
async function vectorOf(...flags: string[]): Promise<readonly number[]> {
  const line = await tapir('embed', PHOTO, '--out', '-', ...flags);
  return (JSON.parse(line) as { readonly v: readonly number[] }).v;
}

let wanted: readonly number[];
beforeAll(async () => {
  wanted = await vectorOf('--model', model, ...NODES);
  expect(wanted.length).toBe(128);
});

describe.each(['photo', 'photo-batch'])('tapir extract --input %s', (input) => {
  const file = join(scratch, `${input}.onnx`);
  const extract = (...flags: string[]): Promise<string> =>
    tapir('extract', model, ...NODES, '--input', input, '--out', file, ...flags);

  it('writes a file whose bits `tapir check` proves, with the vectors of the model', async () => {
    const plan = JSON.parse(await extract('--verify', '--json')) as {
      readonly verified: { readonly isEqual: boolean };
    };
    expect(plan.verified.isEqual).toBe(true);
    const [photo, ...others] = (await openModel(file)).inputs;
    expect(others).toEqual([]);
    expect(photo).toMatchObject({ name: 'photo', dtype: 'uint8' });
    expect(await tapir('check', file)).toMatch(
      /✓ pixels +yes +the test picture on "cpu": the bits of onnx-tapir/,
    );
    expect(await vectorOf('--model', file, '--return', 'v')).toEqual(wanted);
  });

  it('`tapir check` says where bits differ', async () => {
    const bytes = Buffer.from(readFileSync(file));
    const at = bytes.indexOf('"sha256":"') + '"sha256":"'.length;
    bytes[at] = bytes[at] === 0x61 ? 0x62 : 0x61;
    const wrong = join(scratch, `wrong-${input}.onnx`);
    writeFileSync(wrong, bytes);
    const ended = await runTapir(['check', wrong]);
    expect(ended.code).not.toBe(0);
    expect(ended.stdout).toContain('other bits than onnx-tapir');
  });

  it.runIf(input === 'photo')('`tapir compare` finds the same pixels and the same vectors', async () => {
    const said = await tapir(
      'compare',
      model,
      file,
      projectPath('examples/photos/sea'),
      ...NODES,
      '--return-b',
      'v',
      '--transform-b',
      'auto',
    );
    expect(said).toContain('Both models got the same pixels');
    expect(said).toContain('The vectors are the same for all 4 images.');
  });

  it('is served: a JPEG in, the same vector out', async () => {
    await using extractor = await createFeatureExtractor(file);
    const service = createService(extractor, { name: 'net' });
    afterAll(() => service.close());
    const url = await service.listen({ port: 0 });
    const reply = (await (await postImage(url, Buffer.from(readFileSync(PHOTO)))).json()) as EmbedReply;
    expect(reply.results[0]!.features!['v']).toEqual(wanted);
    await service.close();
  });

  it.runIf(input === 'photo')('in float16, has exact pixels and vectors near by', async () => {
    await extract('--precision', 'float16', '--overwrite');
    expect(await tapir('check', file)).toContain('✓ pixels');
    const vector = await vectorOf('--model', file, '--return', 'v');
    const scale = Math.max(...wanted);
    for (const [i, value] of vector.entries()) expect(Math.abs(value - wanted[i]!)).toBeLessThan(scale / 100);
  });
});
