/** `npm run model`: writes models/resnet50-untrained.onnx (102 MB) unless it is there. */
import { createHash } from 'node:crypto';
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildResNet } from './resnet.js';

const path = fileURLToPath(new URL('resnet50-untrained.onnx', import.meta.url));
if (existsSync(path)) console.log(`${path} is there`);
else {
  const { bytes, parameters } = buildResNet();
  writeFileSync(`${path}.partial`, bytes);
  renameSync(`${path}.partial`, path);
  const digest = createHash('sha256').update(bytes).digest('hex');
  console.log(`${path}: ${parameters} parameters, ${bytes.byteLength} bytes, sha256 ${digest}`);
}
