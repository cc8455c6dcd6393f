/**
 * `loadImage` and `toTensors`, one image after the other: CPU time of passes over all photos.
 *
 *     node preprocess_tapir.js PHOTOS PASSES torchvision|transformers|naflex
 */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createTransform, loadImage, transformFromConfig } from 'onnx-tapir';

const [photos, passes, library] = process.argv.slice(2);
const paths = readdirSync(photos)
  .toSorted()
  .map((name) => join(photos, name));
const TYPES = { transformers: 'CLIPImageProcessor', naflex: 'Siglip2ImageProcessor' };
const type = TYPES[library];
const transform = type
  ? transformFromConfig({ image_processor_type: type }, { backend: 'pil' })
  : createTransform('ImageNet1K_V2');
const [first] = transform.tensors;
const load = async (path) => (await loadImage(path, transform)).toTensors()[first.name];

// The first pass, which is not timed, also warms up.
const digests = [];
for (const path of paths) {
  const { data } = await load(path);
  digests.push(createHash('sha256').update(data).digest('hex'));
}
const cpu = process.cpuUsage();
const started = performance.now();
for (let pass = 0; pass < Number(passes); pass++) for (const path of paths) await load(path);
const loopS = (performance.now() - started) / 1000;
const { user, system } = process.cpuUsage(cpu);
const loopCpuS = (user + system) / 1e6;
console.log(JSON.stringify({ images: Number(passes) * paths.length, loopCpuS, loopS, digests }));
