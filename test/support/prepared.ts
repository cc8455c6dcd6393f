/** Entries of the cache of prepared models, from the outside. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes an entry's graph unreadable to onnxruntime, and the entry whole in the eyes of the cache. */
export function damageGraph(entry: string): void {
  const graph = join(entry, 'model.onnx');
  writeFileSync(graph, 'this is no ONNX file');
  const sizes = {
    'model.onnx': statSync(graph).size,
    'weights.bin': statSync(join(entry, 'weights.bin')).size,
  };
  const graphSha256 = createHash('sha256').update(readFileSync(graph)).digest('hex');
  writeFileSync(join(entry, 'entry.json'), JSON.stringify({ graphSha256, sizes }));
}
