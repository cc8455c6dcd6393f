/**
 * `npx tsx bench/int8.ts [--rounds N] [--photos N] [--model FILE --node NAME] [--json FILE]`: photos → vectors in int8 against float32, of a
 * seeded ViT-B/16 unless a model is given, and how near the vectors are. The two embed the same photos in turn.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, embedImages, openModel, pruneModel, type Extractor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { compareModels, quantizeModel } from 'onnx-tapir/precision';
import { interleave, ratios, Report, spreadOf, watchOthers } from './measure.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    photos: { type: 'string', default: '96' },
    model: { type: 'string' },
    node: { type: 'string', default: 'getitem_5' },
    json: { type: 'string' },
  },
});
const rounds = Number(values.rounds);
const count = Number(values.photos);
const report = new Report();
const scratch = mkdtempSync(join(tmpdir(), 'tapir-int8-'));
const folder = fileURLToPath(new URL('../examples/photos', import.meta.url));
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.jpg'))
  .map((name) => join(folder, name));

console.log(`${machineText()}; median [min–max] of ${rounds} paired rounds of ${count} photos\n`);
const model =
  values.model === undefined ? await createModel('vit_b_16', { seed: 1 }) : await openModel(values.model);
const exact = await pruneModel(model, { [values.node]: 'embedding' });
const { model: lowered, report: lowering } = await quantizeModel(exact, files, {
  transform: 'ImageNet1K_V1',
  minCosine: 0.99,
});
const size = lowering.bytesAfter / lowering.bytesBefore;
report.add('size of the file: int8 / float32', spreadOf([size]), '<= 0.3', size <= 0.3);

await using float32 = await createFeatureExtractor(exact);
await using int8 = await createFeatureExtractor(lowered);
const { outputs } = await compareModels(float32, int8, files, { transform: 'ImageNet1K_V1', neighbours: 5 });
const { mean, least } = outputs[0]!.cosine!;
report.add(
  `mean cosine to float32 on ${files.length} photos`,
  spreadOf([mean]),
  '>= 0.999',
  mean >= 0.999,
  5,
);
report.add('least cosine', spreadOf([least]), '>= 0.99', least >= 0.99, 5);

const source = join(scratch, 'photos');
mkdirSync(source);
for (let i = 0; i < count; i++) copyFileSync(files[i % files.length]!, join(source, `${i}.jpg`));
const embed = (extractor: Extractor) => async (): Promise<void> => {
  for await (const { error } of embedImages(extractor, source, { transform: 'ImageNet1K_V1' }))
    if (error) throw new Error(error.message);
};
const others = watchOthers();
const seconds = await interleave(rounds, { float32: embed(float32), int8: embed(int8) });
const speed = ratios(seconds.float32, seconds.int8);
report.add('photos/s from files to vectors: int8 / float32', speed, '>= 1.7', speed.median >= 1.7);
const rate = (taken: readonly number[]): string => (count / spreadOf(taken).median).toFixed(2);
console.log(
  `  photos/s: int8 ${rate(seconds.int8)}, float32 ${rate(seconds.float32)}; others used ${(others() * 100).toFixed(0)} % of the cores meanwhile`,
);
rmSync(scratch, { recursive: true });

if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  const machine = describeMachine();
  const content = { date: new Date().toISOString(), machine, rounds, photos: count, results: report.results };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}
