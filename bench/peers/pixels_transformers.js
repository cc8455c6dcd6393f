/**
 * What transformers.js makes of photos: a raw float32 file, all photos after one another, and a line of JSON with its version.
 *
 *     node pixels_transformers.js PHOTOS CONFIGURATION OUT ENTRY
 *
 * CONFIGURATION is a preprocessor_config.json, ENTRY the package's main module, which is no dependency of this project.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [photos, configuration, out, entry] = process.argv.slice(2);
const { AutoImageProcessor, env, RawImage } = await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = `${dirname(dirname(configuration))}/`;
const processor = await AutoImageProcessor.from_pretrained(configuration.split('/').at(-2));
const [parts, counts] = [[], []];
for (const name of readdirSync(photos).toSorted()) {
  const { pixel_values } = await processor([await RawImage.read(join(photos, name))]);
  counts.push(pixel_values.data.length);
  parts.push(
    Buffer.from(pixel_values.data.buffer, pixel_values.data.byteOffset, pixel_values.data.byteLength),
  );
}
writeFileSync(out, Buffer.concat(parts));
const { version } = JSON.parse(readFileSync(join(dirname(entry), '../package.json'), 'utf8'));
console.log(JSON.stringify({ version, counts }));
