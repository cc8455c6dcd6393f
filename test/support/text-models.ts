/** Pairs of towers and tokenizers of test/fixtures/text, unpacked into the layouts in which hubs keep them. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { fixturePath } from './fixtures.js';

/** A file of test/fixtures/text, unpacked. */
export function readTextFixture(name: string): Buffer {
  const bytes = readFileSync(fixturePath(`text/${name}`));
  return name.endsWith('.gz') ? gunzipSync(bytes) : bytes;
}

/** A JSON file of test/fixtures/text. */
export function readTextJson<Content>(name: string): Content {
  return JSON.parse(readTextFixture(name).toString()) as Content;
}

/** CLIP's, for the fixtures' size. */
const PREPROCESSING = {
  image_processor_type: 'CLIPImageProcessor',
  do_resize: true,
  size: { shortest_edge: 32 },
  resample: 3,
  do_center_crop: true,
  crop_size: { height: 32, width: 32 },
  do_rescale: true,
  rescale_factor: 1 / 255,
  do_normalize: true,
  image_mean: [0.48145466, 0.4578275, 0.40821073],
  image_std: [0.26862954, 0.26130258, 0.27577711],
  do_convert_rgb: true,
};

/** Writes fixtures to places in a folder. */
function unpack(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [place, fixture] of Object.entries(files)) {
    const path = join(folder, place);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, readTextFixture(fixture));
  }
}

/** Writes a pair as Hugging Face's repositories have it. Returns the path of the text tower. */
export function writeHuggingFacePair(folder: string, kind: 'clip' | 'siglip' | 'siglip2' | 'bert'): string {
  unpack(folder, {
    'config.json': `${kind}/config.json`,
    'tokenizer.json': `${kind}/tokenizer.json.gz`,
    'tokenizer_config.json': `${kind}/tokenizer_config.json`,
    'onnx/text_model.onnx': `${kind}/text_model.onnx.gz`,
    ...(kind === 'clip'
      ? { 'onnx/vision_model.onnx': 'clip/vision_model.onnx.gz', 'onnx/model.onnx': 'clip/model.onnx.gz' }
      : {}),
  });
  writeFileSync(join(folder, 'preprocessor_config.json'), JSON.stringify(PREPROCESSING));
  return join(folder, 'onnx', 'text_model.onnx');
}

/** Writes a pair as Immich's repositories have it. Returns the path of the image tower. */
export function writeImmichPair(folder: string): string {
  unpack(folder, {
    'config.json': 'immich/config.json',
    'textual/tokenizer.json': 'clip/tokenizer.json.gz',
    'textual/tokenizer_config.json': 'immich/tokenizer_config.json',
    'textual/model.onnx': 'immich/textual.onnx.gz',
    'visual/model.onnx': 'clip/vision_model.onnx.gz',
  });
  return join(folder, 'visual', 'model.onnx');
}
