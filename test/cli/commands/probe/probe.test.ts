/** `tapir probe` and `tapir classify` as a user runs them: embed, train, attach, classify. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  openDataset,
  openModel,
  TapirError,
} from 'onnx-tapir';
import {
  attachProbe,
  classifyImages,
  predictProbe,
  readProbe,
  saveProbe,
  trainProbe,
  type ClassifiedImage,
} from 'onnx-tapir/features';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { beforeAll, describe, expect, it } from 'vitest';
import { failureOf } from '../../../support/failure.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { copyPhotos } from '../../../support/photos.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const [photos, dataset, model] = [
  join(scratch, 'photos'),
  join(scratch, 'vectors'),
  join(scratch, 'net.onnx'),
];
const [out, saved] = [join(scratch, 'classifier.onnx'), join(scratch, 'probe.json')];
const transform = createTransform({ resize: 64, crop: 64 });

async function collect(images: AsyncIterable<ClassifiedImage>): Promise<ClassifiedImage[]> {
  const all: ClassifiedImage[] = [];
  for await (const image of images) all.push(image);
  return all;
}

beforeAll(async () => {
  copyPhotos(photos);
  writeFileSync(join(photos, 'dunes/empty.jpg'), '');
  writeFileSync(model, tinyResNet());
  await using extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
  await embedFolder(extractor, photos, { out: dataset, transform });
});

describe('tapir probe', () => {
  it('trains, shows results, and puts the head into the model', async () => {
    const flags = ['--labels', 'by-folder', '--set', 'strength=10', '--set', 'folds=4', '--save', saved];
    const made = await runTapir(['probe', dataset, ...flags, '--attach', model, '-o', out]);
    expect(made, made.stderr).toMatchObject({
      code: 0,
      stderr: 'note: 1 image left out, which could not be embedded\n',
    });
    expect(made.stdout).toMatch(
      /^logistic, strength 10, \d classes, 24 images, 4 held-out folds\naccuracy [01]\.\d{4}/,
    );
    expect(made.stdout).toContain('precision');
    const probe = await readProbe(saved);
    const { labels } = JSON.parse(JSON.stringify({ labels: probe.classes })) as { labels: string[] };
    expect(labels).toEqual(labels.toSorted());
    const again = await runTapir(['probe', dataset, ...flags]);
    expect(again.stderr).toContain('OUTPUT_EXISTS');
  });

  it('goes on after a kill between its files, and replaces no other file', async () => {
    const flags = ['--labels', 'by-folder', '--set', 'strength=10', '--set', 'folds=4', '--save', saved];
    const args = ['probe', dataset, ...flags, '--attach', model, '-o', out];
    const names = [saved, `${out}.tapir.json`, out];
    const before = names.map((name) => readFileSync(name));
    expect((await runTapir(args)).stderr).toContain('OUTPUT_EXISTS');
    rmSync(out);
    expect(await runTapir(args)).toMatchObject({ code: 0 });
    expect(names.map((name) => readFileSync(name))).toEqual(before);
    rmSync(out);
    writeFileSync(saved, 'another');
    expect((await runTapir(args)).stderr).toMatch(/probe\.json" exists already.*OUTPUT_EXISTS/);
    expect(existsSync(out)).toBe(false);
    expect(readFileSync(saved, 'utf8')).toBe('another');
    expect(await runTapir([...args, '--overwrite'])).toMatchObject({ code: 0 });
    expect(names.map((name) => readFileSync(name))).toEqual(before);
  });

  it('gives a file whose probabilities are those of the probe', async () => {
    const probe = await readProbe(saved);
    const found = await collect(classifyImages(out, photos, { top: 100 }));
    const vectors = new Map<number, Float32Array>();
    const opened = await openDataset(dataset);
    for await (const { firstRow, rows, data } of opened.blocks('embedding'))
      for (let i = 0; i < rows; i++)
        vectors.set(firstRow + i, data.slice((i * data.length) / rows, ((i + 1) * data.length) / rows));
    let compared = 0;
    for await (const { path, row } of opened.rows()) {
      const image = found.find((one) => one.path === path)!;
      if (row === null) {
        expect(image.error?.code).toBe('IMAGE_EMPTY');
        continue;
      }
      const { label, scores } = predictProbe(probe, vectors.get(row)!);
      expect(image.classes[0]!.label).toBe(label);
      for (const { label: name, score } of image.classes)
        expect(Math.abs(score - scores[probe.classes.indexOf(name)]!)).toBeLessThan(1e-6);
      compared++;
    }
    expect(compared).toBe(24);
  });

  it('keeps the bytes of the weights, and writes labels and transform', async () => {
    const [before, after] = [readFileSync(model), readFileSync(out)];
    const opened = await openModel(out);
    expect(opened.outputs).toMatchObject([{ name: 'probabilities' }]);
    expect(opened.inputs).toEqual((await openModel(model)).inputs);
    const own = JSON.parse(readFileSync(`${out}.tapir.json`, 'utf8')) as { readonly labels: unknown };
    const { classes } = await readProbe(saved);
    expect(own).toMatchObject({ transform: { resize: 64, crop: 64 }, labels: classes });
    // Every field of the new graph is one of the old graph, to the byte, or was added; what the pooled vector does not need is gone.
    const fieldsOf = (bytes: Buffer): Map<string, string> => {
      const { nodes, initializers } = scanModel(memorySource(bytes)).graph;
      return new Map(
        [...nodes, ...initializers].map((item): [string, string] => {
          const { start, end } = item.field;
          return [item.name, bytes.toString('latin1', start, end)];
        }),
      );
    };
    const [old, now] = [fieldsOf(before), fieldsOf(after)];
    const added = [...now.keys()].filter((name) => !old.has(name));
    const kept = [...now.keys()].filter((name) => old.has(name));
    for (const name of kept) expect(now.get(name) === old.get(name), name).toBe(true);
    expect(added.every((name) => name.startsWith('tapir/'))).toBe(true);
    expect(new Set([...old.keys()].filter((name) => !now.has(name)))).toEqual(
      new Set(['/Flatten', '/fc/Gemm', 'fc.weight', 'fc.bias']),
    );
  });

  it.each([
    ['knn', 'none', 'probabilities'],
    ['knn', 'l2', 'probabilities'],
    ['logistic', 'l2', 'probabilities'],
    ['ridge', 'standardize', 'scores'],
    ['centroid', 'l2', 'scores'],
  ] as const)('attaches %s with %s', async (kind, normalize, name) => {
    const opened = await openDataset(dataset);
    const probe = await trainProbe(opened, 'by-folder', {
      kind,
      normalize,
      folds: 3,
      ...(kind === 'logistic' || kind === 'ridge' ? { strength: 1 } : {}),
      ...(kind === 'knn' ? { neighbours: 3 } : {}),
    });
    const file = join(scratch, `${kind}-${normalize}.onnx`);
    await saveProbe(probe, `${file}.json`);
    await expect(saveProbe(probe, `${file}.json`)).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
    const classifier = await attachProbe(model, await readProbe(`${file}.json`));
    expect(classifier.outputs).toMatchObject([{ name }]);
    await classifier.save(file);
    const found = await collect(classifyImages(file, photos, { top: 100, transform }));
    for await (const { firstRow, rows, data } of opened.blocks('embedding'))
      for await (const { path, row } of opened.rows()) {
        if (row === null || row < firstRow || row >= firstRow + rows) continue;
        const width = data.length / rows;
        const { scores } = predictProbe(
          probe,
          data.slice((row - firstRow) * width, (row - firstRow + 1) * width),
        );
        for (const { label, score } of found.find((one) => one.path === path)!.classes) {
          const expected = scores[probe.classes.indexOf(label)]!;
          expect(Math.abs(score - expected)).toBeLessThan(1e-5 * Math.max(1, Math.abs(expected)));
        }
      }
  });

  it('classifies from the command line', async () => {
    const made = await runTapir(['classify', photos, '--model', out, '--top', '1', '--json']);
    expect(made).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^transform: .*\nnote: 1 image could not be read\n$/),
    });
    const lines = made.stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(25);
    expect(JSON.parse(lines[1]!)).toMatchObject({
      error: null,
      classes: [{ score: expect.any(Number) as number }],
    });
    const ofSea = JSON.parse(lines.find((line) => line.includes('sea-0.jpg'))!) as {
      readonly classes: unknown;
    };
    const [one, none] = [join(photos, 'sea/sea-0.jpg'), join(photos, 'none.jpg')];
    const listed = await runTapir(['classify', one, none, '--model', out, '--top', '1', '--json']);
    expect(listed.code).toBe(1);
    expect(
      listed.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toMatchObject([
      { path: one, classes: ofSea.classes, error: null },
      { path: none, classes: [], error: { code: 'IMAGE_NOT_FOUND' } },
    ]);
    const size = '{"resize":64,"crop":64}';
    const plain = await runTapir(['classify', photos, '--model', model, '--transform', size]);
    expect(plain.stderr).toContain('its metadata has no labels');
  });

  it('refuses another model, -o without --attach, and labels that are not there', async () => {
    const probe = await readProbe(saved);
    const other = join(scratch, 'other.onnx');
    writeFileSync(other, Buffer.concat([readFileSync(model), Buffer.from([0x32, 0])]));
    expect(await failureOf(attachProbe(other, probe), TapirError)).toMatchObject({
      code: 'CHECKSUM_MISMATCH',
    });
    const alone = await runTapir(['probe', dataset, '--labels', 'by-folder', '-o', out]);
    expect(alone.stderr).toContain('--attach');
    const absent = await runTapir(['probe', dataset, '--labels', join(scratch, 'absent.csv')]);
    expect(absent.stderr).toMatch(
      /absent.csv" cannot be read as labels: there is no ".*absent.csv" \(ENOENT\) \[SOURCE_INVALID\]/,
    );
    writeFileSync(other, '{}');
    expect(await failureOf(readProbe(other), TapirError)).toMatchObject({ code: 'OPTION_INVALID' });
  });
});
