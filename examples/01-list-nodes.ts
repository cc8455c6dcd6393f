/** Lists what can be asked for in a model. Run: npx tsx examples/01-list-nodes.ts [MODEL] */
import { getGraphNodeNames, openModel } from 'onnx-tapir';

const model = await openModel(process.argv[2] ?? 'models/resnet50-untrained.onnx');
console.log(model.inputs); // [{ name: 'input', dtype: 'float32', dims: ['batch', 3, 224, 224] }]

const names = getGraphNodeNames(model);
console.log(`${names.length} names:`, names.slice(0, 8).join(', '), '…', names.slice(-4).join(', '));
