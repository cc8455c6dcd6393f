/** `tapir train` in a process of its own: stopped and killed at any moment, it goes on. */
import { copyFileSync, cpSync, mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createModel } from 'onnx-tapir/zoo';
import { beforeAll, describe, expect, it } from 'vitest';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { runTapir, type Ended, type RunOptions } from '../../support/run.js';

let place: string;
let photos: string;

beforeAll(async () => {
  place = mkdtempSync(join(scratchFolder(), 'train-'));
  photos = join(place, 'photos');
  for (const name of ['dunes', 'sea'])
    cpSync(projectPath(`examples/photos/${name}`), join(photos, name), { recursive: true });
  const model = await createModel('shufflenet_v2_x0_5', { imageSize: 64, seed: 1 });
  await model.save(join(place, 'model.onnx'));
});

const flags = (out: string): string[] => {
  const files = ['--model', join(place, 'model.onnx'), '--out', join(place, out)];
  const how = ['--transform', '{"resize":64,"crop":64}', '--epochs', '3', '--batch', '2'];
  return ['train', photos, ...files, ...how, '--train', 'conv5,fc'];
};

const train = (out: string, more: readonly string[] = [], options: RunOptions = {}): Promise<Ended> =>
  runTapir([...flags(out), ...more], options);

describe('tapir train', () => {
  it('prints a line per epoch, and what it wrote', async () => {
    const { code, stdout, stderr } = await train('plain.onnx');
    expect(stderr).toMatch(/^"fc" gets 2 outputs in place of 1000, and starts from scratch$/m);
    expect(
      stderr.match(/^epoch \d\/3: loss [\d.]+, accuracy [\d.]+ %; held out: loss .* images\/s$/gm),
    ).toHaveLength(3);
    expect(stdout).toMatch(
      /^written: .*plain\.onnx \(2 classes, epoch \d: held-out accuracy .*\)\nwritten: .*plain\.onnx\.html\n$/,
    );
    expect(code).toBe(0);
    expect(await train('plain.onnx')).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/OUTPUT_EXISTS/),
    });
  });

  it('goes on after Ctrl-C and after a kill, to the same bytes', async () => {
    const stopped = await train('stopped.onnx', [], { signal: { name: 'SIGINT', when: /epoch 1\/3/ } });
    expect(stopped).toMatchObject({ code: 130, stderr: expect.stringMatching(/tapir: stopped/) });
    const killed = await train('stopped.onnx', [], { signal: { name: 'SIGKILL', when: /epoch [23]\/3/ } });
    expect(killed.signal).toBe('SIGKILL');
    const finished = await train('stopped.onnx');
    expect(finished).toMatchObject({ code: 0, stderr: expect.stringMatching(/^resumes in epoch/m) });
    const whole = await train('whole.onnx', ['--json']);
    expect(whole.code).toBe(0);
    expect(JSON.parse(whole.stdout)).toMatchObject({ classes: ['dunes', 'sea'] });
    const [a, b] = ['stopped.onnx', 'whole.onnx'].map((name) => readFileSync(join(place, name)));
    expect(a!.equals(b!)).toBe(true);
  });

  it('lists photos that cannot be read, with exit code 1', async () => {
    const some = join(place, 'some');
    cpSync(photos, some, { recursive: true });
    copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(some, 'sea/cut.jpg'));
    const words = flags('some.onnx').map((word) => (word === photos ? some : word));
    const more = ['--optimizer', 'sgd', '--lr', '0.01', '--holdout', '0', '--epochs', '1'];
    const { code, stderr } = await runTapir([...words, ...more]);
    expect(stderr).toMatch(/1 photo left out, which could not be read:\n {2}sea\/cut\.jpg: /);
    expect(code).toBe(1);
  });

  it.each([
    [['--optimizer', 'adagrad', '--set', 'momentum=0.9'], /momentum/],
    [['--holdout', '2'], /holdout/],
    [['--train', 'nothing'], /"nothing" cannot be trained/],
    [['--devices', 'tpu'], /devices/],
    [['--set', 'schedule=wave'], /schedule/],
  ])('refuses %j', async (more, message) => {
    const { code, stderr } = await train('refused.onnx', more);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });
});
