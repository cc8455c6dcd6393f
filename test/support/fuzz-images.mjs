/**
 * Damages images in many ways and loads each one: node fuzz-images.mjs FOLDER MUTANTS SEED. Tests run it in a separate process.
 * Prints a summary as JSON. Each image must load, or fail with a typed error of an image.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTransform, isTapirError, loadImage } from 'onnx-tapir';

const [folder, mutants, seed] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const files = readdirSync(folder).map((name) => ({ name, whole: readFileSync(join(folder, name)) }));
// With a limit on pixels, so that damaged sizes cost little.
const small = { resize: 16, crop: 16, limitPixels: 1_000_000 };
const transforms = [
  createTransform(small),
  createTransform({ ...small, orientation: 'exif' }),
  createTransform({ ...small, decode: 'fast' }),
];
const summary = { loaded: 0, refused: {}, wrong: [], slowestCpuMs: 0, slowest: '', formats: {} };

/** xorshift32 (Marsaglia 2003). */
let state = seed || 1;
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}

const EXTREMES = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff];

/** Applies one kind of damage, often near the front, where headers are. */
function damage(bytes) {
  if (bytes.length === 0) return bytes;
  const at = random(random(2) === 0 ? Math.min(bytes.length, 120) : bytes.length);
  const copy = Buffer.from(bytes);
  switch (random(8)) {
    case 0:
      return copy.subarray(0, at);
    case 1:
      copy[at] = random(256);
      return copy;
    case 2:
      copy[at] ^= 1 << random(8);
      return copy;
    case 3:
      return Buffer.concat([copy.subarray(0, at), Buffer.of(random(256)), copy.subarray(at)]);
    case 4:
      return Buffer.concat([copy.subarray(0, at), copy.subarray(at + 1 + random(9))]);
    case 5: {
      if (at + 4 > copy.length) return copy;
      const value = EXTREMES[random(EXTREMES.length)];
      if (random(2) === 0) copy.writeUInt32LE(value, at);
      else copy.writeUInt32BE(value, at);
      return copy;
    }
    case 6: {
      // Repeats some bytes.
      const end = Math.min(copy.length, at + 1 + random(64));
      return Buffer.concat([copy.subarray(0, end), copy.subarray(at)]);
    }
    default: {
      // Joins the front of one file with the rest of another.
      const { whole } = files[random(files.length)];
      return Buffer.concat([copy.subarray(0, at), whole.subarray(Math.min(at, whole.length))]);
    }
  }
}

for (let i = 0; i < mutants; i++) {
  const { name, whole } = files[i % files.length];
  const format = name.split('.').at(-1);
  summary.formats[format] = (summary.formats[format] ?? 0) + 1;
  let bytes = whole;
  for (let times = random(4) === 0 ? 1 + random(6) : 1; times > 0; times--) bytes = damage(bytes);
  const transform = transforms[random(transforms.length)];
  const what = `mutant ${i} of ${name}, ${transform.options.decode}, ${transform.options.orientation}`;
  const before = process.cpuUsage();
  try {
    const { data } = await loadImage(bytes, transform);
    if (data.length !== 16 * 16 * 3) summary.wrong.push(`${what}: ${data.length} bytes`);
    summary.loaded++;
  } catch (error) {
    if (isTapirError(error) && error.code.startsWith('IMAGE_'))
      summary.refused[error.code] = (summary.refused[error.code] ?? 0) + 1;
    else summary.wrong.push(`${what}: ${error?.stack ?? error}`);
  }
  const { user, system } = process.cpuUsage(before);
  if (user + system > summary.slowestCpuMs * 1000)
    [summary.slowestCpuMs, summary.slowest] = [(user + system) / 1000, what];
}
console.log(JSON.stringify({ ...summary, largestBytes: process.resourceUsage().maxRSS * 1024 }));
