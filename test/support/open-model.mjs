/** Opens a model and lists its names in a process of its own: node open-model.mjs PATH. Prints the outcome as JSON. */
import { getGraphNodeNames, openModel, TapirError } from 'onnx-tapir';

const before = process.resourceUsage().maxRSS;
const started = process.cpuUsage();
const outcome = { code: null, names: 0 };
try {
  outcome.names = getGraphNodeNames(await openModel(process.argv[2])).length;
} catch (error) {
  outcome.code = error instanceof TapirError ? error.code : String(error?.stack ?? error);
}
const { user, system } = process.cpuUsage(started);
const grownBytes = (process.resourceUsage().maxRSS - before) * 1024;
console.log(JSON.stringify({ ...outcome, grownBytes, cpuMs: (user + system) / 1000 }));
