/** `tapir serve`: the command starts, answers, and ends well when it is told to. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';
import { writeHuggingFacePair } from '../../support/text-models.js';

const scratch = scratchFolder();
const model = join(scratch, 'small net.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const serve = (flags: readonly string[], name: NodeJS.Signals = 'SIGTERM') =>
  runTapir(['serve', '--model', model, '--return', 'avgpool=v', '--port', '0', ...flags], {
    signal: { name, when: /serving / },
  });

describe('tapir serve', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)('says where it is, and ends with 0 on %s', async (name) => {
    const ended = await serve(['--json'], name);
    expect(ended.code).toBe(0);
    expect(ended.stderr).toMatch(
      /^warning: ImageNet1K_V1 is assumed: .*\nserving "small-net" on cpu.* at http:\/\/127\.0\.0\.1:\d+\nstopping/,
    );
    const { url, ...facts } = JSON.parse(ended.stdout) as { url: string };
    expect(ended.stderr).toContain(url);
    expect(facts).toEqual({ name: 'small-net', outputs: ['v'] });
  });

  it('warns of a host that others reach, unless a token is set', async () => {
    const open = await serve(['--host', '0.0.0.0']);
    expect(open).toMatchObject({ code: 0, stdout: '' });
    expect(open.stderr).toContain('no token is set');
    const closed = await serve(['--host', '0.0.0.0', '--token', 'secret']);
    expect(closed.stderr).not.toContain('no token');
  });

  it('finds the text tower beside the model, says so, and leaves it out on request', async () => {
    writeHuggingFacePair(join(scratch, 'clip'), 'clip');
    const clip = join(scratch, 'clip/onnx/vision_model.onnx');
    const run = (flags: readonly string[]) =>
      runTapir(['serve', '--model', clip, '--return', 'tensor:image_embeds=v', '--port', '0', ...flags], {
        signal: { name: 'SIGTERM', when: /serving / },
      });
    const found = await run([]);
    expect(found, found.stderr).toMatchObject({ code: 0 });
    expect(found.stderr).toMatch(/text tower: .*text_model\.onnx, output text_embeds\n/);
    expect((await run(['--text-model', 'none'])).stderr).not.toContain('text tower');
    expect(await run(['--text-model', model])).toMatchObject({ code: 2 });
  });

  it('takes labels that an output fits', async () => {
    const labels = join(scratch, 'labels.txt');
    writeFileSync(labels, Array.from({ length: 10 }, (_, i) => `thing ${i}\n`).join(''));
    expect(await serve(['--return', 'fc=logits', '--labels', labels])).toMatchObject({ code: 0 });
    expect(await serve(['--labels', labels])).toMatchObject({ code: 2 });
  });

  it('refuses flags that make no sense', async () => {
    for (const flags of [
      ['--port', '70000'],
      ['--max-batch', 'many'],
      ['--set', 'maxBodyBytes=0'],
      ['--transform', 'limitPixels=0'],
      ['--name', 'a/b'],
      ['--host', '192.0.2.1'],
    ])
      expect(await serve(flags), flags.join(' ')).toMatchObject({ code: 2 });
  });
});
