/**
 * `npx tsx bench/int8-embed.ts --photos FOLDER [--rounds N] [--json FILE]`: photos → vectors by `tapir embed`'s path, of a seeded ResNet-50 in
 * OpenVINO: 8 bits with the rest in bfloat16 against bfloat16, in paired rounds, and CPU time per image.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, embedImages, pruneModel, type Extractor } from 'onnx-tapir';
import { quantizeModel, type StaticReport } from 'onnx-tapir/precision';
import { createModel } from 'onnx-tapir/zoo';
import { interleave, ratios, Report, spreadOf, watchOthers } from './measure.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    photos: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'string' },
  },
});
const { photos } = values;
if (photos === undefined) throw new Error('give --photos');
const rounds = Number(values.rounds);
const report = new Report();
const scratch = mkdtempSync(join(tmpdir(), 'tapir-int8-embed-'));
const transform = 'ImageNet1K_V1';
const exact = await pruneModel(await createModel('resnet50', { seed: 1 }), { avgpool: 'embedding' });
const started = performance.now();
const { model, report: made } = await quantizeModel(exact, photos, { transform });
const file = join(scratch, 'resnet50.int8.onnx');
await model.save(file);
const { measured, calibration } = made as StaticReport;
console.log(
  `quantised in ${((performance.now() - started) / 1000).toFixed(0)} s: ${JSON.stringify({ measured, calibration })}`,
);

const place = { engine: 'openvino', precision: 'bfloat16' } as const;
await using bfloat16 = await createFeatureExtractor(exact, undefined, place);
await using int8 = await createFeatureExtractor(file, ['embedding'], place);
let count = 0;
const embed = (extractor: Extractor) => async (): Promise<void> => {
  count = 0;
  for await (const { error } of embedImages(extractor, photos, { transform })) if (!error) count++;
};
const others = watchOthers();
const seconds = await interleave(rounds, { bfloat16: embed(bfloat16), int8: embed(int8) });
const speed = ratios(seconds.bfloat16, seconds.int8);
report.add('photos/s from files to vectors: int8 / bfloat16', speed, '>= 1.4', speed.median >= 1.4);
const rate = (taken: readonly number[]): string => (count / spreadOf(taken).median).toFixed(1);
console.log(
  `  ${count} photos; photos/s: int8 ${rate(seconds.int8)}, bfloat16 ${rate(seconds.bfloat16)}; others used ${(others() * 100).toFixed(0)} % of the cores meanwhile`,
);
rmSync(scratch, { recursive: true });
if (values.json !== undefined) {
  console.log(machineText());
  const machine = describeMachine();
  const facts = { date: new Date().toISOString(), machine, rounds, photos: count, measured, calibration };
  writeFileSync(values.json, `${JSON.stringify({ ...facts, results: report.results }, null, 2)}\n`);
}
