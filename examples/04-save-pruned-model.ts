/** Cuts a model after layer2 and saves it for any ONNX runtime. Run: npx tsx examples/04-save-pruned-model.ts [MODEL] [OUT] */
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pruneModel } from 'onnx-tapir';

const [model = 'models/resnet50-untrained.onnx', out = 'out/resnet50-layer2.onnx'] = process.argv.slice(2);
const pruned = await pruneModel(model, { layer2: 'features' });
console.log(`kept ${pruned.plan.kept.nodes.length} nodes, dropped ${pruned.plan.dropped.nodes.length}`);

await mkdir(dirname(out), { recursive: true });
await pruned.save(out, { overwrite: true });
console.log(`${out}: ${pruned.plan.kept.bytes} bytes of ${pruned.source.label}`);
