/**
 * Damages a model in many ways and prunes each, in a process of its own whose heap is limited: node fuzz.mjs MODEL FLIPS SEED.
 * Prints a summary as JSON: untyped errors are what the tests look for.
 */
import { readFileSync } from 'node:fs';
import { getGraphNodeNames, openModel, pruneModel, TapirError } from 'onnx-tapir';

const [path, flips, seed] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const original = readFileSync(path);
const summary = { cases: 0, plans: 0, refused: {}, untyped: [], slowestMs: 0, slowest: '' };

/** xorshift32 (Marsaglia 2003). */
let state = seed || 1;
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}

async function attempt(bytes, what) {
  const started = performance.now();
  summary.cases++;
  try {
    const model = await openModel(bytes);
    const names = model.outputs.map((output) => `tensor:${output.name}`);
    getGraphNodeNames(model);
    const last = model.nodes.at(-1)?.outputs.at(-1)?.name;
    const pruned = await pruneModel(model, names.length > 0 ? names : [`tensor:${last}`]);
    // What was written is a model again.
    await openModel(await pruned.bytes());
    summary.plans++;
  } catch (error) {
    if (error instanceof TapirError) summary.refused[error.code] = (summary.refused[error.code] ?? 0) + 1;
    else summary.untyped.push(`${what}: ${error?.stack ?? error}`);
  }
  const taken = performance.now() - started;
  if (taken > summary.slowestMs) [summary.slowestMs, summary.slowest] = [taken, what];
}

for (let length = 0; length < original.length; length++)
  await attempt(original.subarray(0, length), `first ${length} bytes`);
for (let i = 0; i < flips; i++) {
  const bytes = Uint8Array.from(original);
  // Mostly one byte; sometimes several, which reach what a single one cannot.
  const damages = Array.from({ length: random(4) === 0 ? 1 + random(8) : 1 }, () => [
    random(bytes.length),
    random(256),
  ]);
  for (const [at, value] of damages) bytes[at] = value;
  await attempt(bytes, `flip ${i}: ${damages.map(([at, value]) => `${at}=${value}`).join(' ')}`);
}
console.log(
  JSON.stringify({ ...summary, untyped: summary.untyped.slice(0, 5), failures: summary.untyped.length }),
);
