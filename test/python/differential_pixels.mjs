/**
 * Compares `transformFromConfig` with the rows of differential_pixels.py: equal bit for bit, or refused. Exit code 1 if a tensor is wrong.
 *
 *     node test/python/differential_pixels.mjs ROWS.json
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { loadImage, transformFromConfig } from 'onnx-tapir';

const counts = { equal: 0, 'both refuse': 0, 'only we refuse': 0, 'only they refuse': 0, wrong: 0 };
for (const { config, backend, image, shape, sha256, error: theirs } of JSON.parse(
  readFileSync(process.argv[2], 'utf8'),
)) {
  let ours;
  let tensor;
  try {
    tensor = (await loadImage(image, transformFromConfig(config, { backend }))).toTensor();
  } catch (error) {
    ours = `${error.code}: ${error.message}`;
  }
  const isEqual =
    tensor && createHash('sha256').update(new Uint8Array(tensor.data.buffer)).digest('hex') === sha256;
  const end =
    ours && theirs
      ? 'both refuse'
      : ours
        ? 'only we refuse'
        : theirs
          ? 'only they refuse'
          : isEqual
            ? 'equal'
            : 'wrong';
  counts[end]++;
  if (end === 'wrong' || end.startsWith('only'))
    console.log(end, JSON.stringify(config), backend, image.split('/').at(-1), ours ?? theirs ?? shape);
}
console.log(counts);
process.exitCode = counts.wrong > 0 ? 1 : 0;
