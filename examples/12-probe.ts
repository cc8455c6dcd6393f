/**
 * Vectors and labels become a classifier, and the classifier becomes part of the model: one plain ONNX file, image tensor in,
 * probabilities out. Run: npx tsx examples/12-probe.ts [MODEL] [OUT]
 */
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { attachProbe, classifyImages, trainProbe } from 'onnx-tapir/features';

const [model = 'models/resnet50-untrained.onnx', out = 'out/12-probe'] = process.argv.slice(2);
const photos = 'examples/photos';
await using extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
await embedFolder(extractor, photos, { out: `${out}/vectors`, overwrite: true });

// The label of city/city-0.jpg is "city".
const probe = await trainProbe(await openDataset(`${out}/vectors`), 'by-folder', { kind: 'ridge', folds: 4 });
const { accuracy, classes, suspects } = probe.results!;
console.log(
  `${classes.length} classes, ${(100 * accuracy).toFixed(0)} % right on photos that were not learned`,
);
for (const { path, given, suggested } of suspects.slice(0, 3))
  console.log(`${path}: labelled ${given}, looks like ${suggested}`);

await (await attachProbe(model, probe)).save(`${out}/classifier.onnx`, { overwrite: true });
for await (const { path, classes: found } of classifyImages(`${out}/classifier.onnx`, `${photos}/sea`))
  console.log(path, found![0]!.label);
