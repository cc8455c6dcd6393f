/** The code that makes a cut: TypeScript, the command line, Python. This file uses no part of the browser. */
import type { PhotoCode } from './data.js';
import type { StatedTensor } from '../structure/model-structure.js';

export type Language = 'typescript' | 'shell' | 'python';

export const LANGUAGES: Readonly<Record<Language, string>> = {
  typescript: 'TypeScript',
  shell: 'Command line',
  python: 'Python',
};

/** A file name for a cut: `resnet50-layer4.onnx`. */
export function cutFile(path: string, names: readonly string[]): string {
  const parts = (names.at(-1) ?? 'cut').split(/[.:/]/).filter((part) => /\w/.test(part));
  const last = parts.slice(-2).join('-');
  return `${stemOf(path)}-${last.replace(/[^\w-]/g, '_') || 'cut'}.onnx`;
}

function stemOf(path: string): string {
  return (path.split(/[\\/]/).at(-1) ?? 'model').replace(/\.onnx$/i, '');
}

type CutInput = Pick<StatedTensor, 'tensor' | 'dtype' | 'dims'>;

/** A cut to write code for. */
export interface Cut {
  /** The file as code names it. */
  readonly path: string;
  readonly names: readonly string[];
  /** The inputs that it needs. */
  readonly inputs: readonly CutInput[];
}

/** The code for a cut. */
export function writeCode(language: Language, cut: Cut, photoCode: PhotoCode): string {
  if (language === 'shell') return writeShell(cut);
  const takesPhoto = cut.inputs.length === 1 && cut.inputs[0]!.tensor === photoCode.input;
  if (language === 'python') return writePython(cut, takesPhoto);
  // What floats do not fit goes through the loader, which makes any feed, and fills fixed batches.
  return takesPhoto && !photoCode.isTensor
    ? writeEmbed(cut, photoCode)
    : writeRun(cut, photoCode, takesPhoto);
}

function writeExtractor({ path, names }: Cut): string {
  return `const extractor = await createFeatureExtractor(${quote(path)}, [${names.map(quote).join(', ')}]);`;
}

function writeEmbed(cut: Cut, { transform }: PhotoCode): string {
  return `import { createFeatureExtractor, embedImages } from 'onnx-tapir';

${writeExtractor(cut)}
for await (const { features, error } of embedImages(extractor, ['photo.jpg']${transform && `, { transform: ${transform} }`})) {
  if (error) throw error;
  const { dims, data } = features[${quote(cut.names[0]!)}];
}
await extractor.close();
`;
}

function writeRun(cut: Cut, { input, transform, isTensor }: PhotoCode, takesPhoto: boolean): string {
  const isPhoto = ({ tensor }: CutInput): boolean => isTensor && tensor === input;
  const hasPhoto = cut.inputs.some(isPhoto);
  const feeds = cut.inputs.map(
    (one) => `  ${keyOf(one.tensor)}: ${isPhoto(one) ? 'image.toTensor()' : emptyTensor(one)},\n`,
  );
  return `import { createFeatureExtractor${hasPhoto ? ', loadImage' : ''} } from 'onnx-tapir';

${writeExtractor(cut)}
${hasPhoto ? `const image = await loadImage('photo.jpg'${transform && `, ${transform}`});\n` : ''}const features = await extractor.run(${takesPhoto ? 'image.toTensor()' : `{\n${feeds.join('')}}`});
const { dims, data } = features[${quote(cut.names[0]!)}];
await extractor.close();
`;
}

/** Arrays by the dtype of their elements; those of others are named after it: `Float32Array`. */
const ARRAYS: Readonly<Record<string, string>> = {
  float16: 'Uint16Array',
  bool: 'Uint8Array',
  int64: 'BigInt64Array',
  uint64: 'BigUint64Array',
};

/** A tensor of zeros, as a place for values. */
function emptyTensor({ dtype, dims }: CutInput): string {
  const type = dtype ?? 'float32';
  const sizes = (dims ?? []).map((size) => (typeof size === 'number' ? size : 1));
  const count = sizes.reduce((product, size) => product * size, 1);
  const array = ARRAYS[type] ?? `${type.replace(/^u?./, (letters) => letters.toUpperCase())}Array`;
  const data = type === 'string' ? `new Array(${count}).fill('')` : `new ${array}(${count})`;
  return `{ dtype: ${quote(type)}, dims: [${sizes.join(', ')}], data: ${data} }`;
}

function keyOf(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name);
}

function writeShell({ path, names }: Cut): string {
  const returns = names.map((name) => `--return ${shellQuote(name)}`);
  return `tapir extract ${shellQuote(path)} ${returns.join(' ')} --out ${shellQuote(cutFile(path, names))}\n`;
}

function writePython({ path, names, inputs }: Cut, takesPhoto: boolean): string {
  if (!takesPhoto) {
    const needed = inputs.map(({ tensor }) => JSON.stringify(tensor)).join(', ');
    return `# torchvision's networks take one photo; this cut takes: ${needed || 'nothing'}\n`;
  }
  const strange = names.filter((name) => !/^[A-Za-z_][\w.]*$/.test(name));
  if (strange.length > 0)
    return `# torchvision has no such nodes: ${strange.map((name) => JSON.stringify(name)).join(', ')}\n`;
  const network = stemOf(path).replace(/\W.*$/, '');
  return `import torch
from torchvision.models import get_model
from torchvision.models.feature_extraction import create_feature_extractor

model = get_model(${quote(network)}, weights="DEFAULT").eval()  # the network that was exported
extractor = create_feature_extractor(model, return_nodes=[${names.map((name) => JSON.stringify(name)).join(', ')}])
with torch.no_grad():
    features = extractor(torch.rand(1, 3, 224, 224))
`;
}

/** A text in single quotes, in TypeScript and in Python. */
function quote(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

function shellQuote(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) && !text.startsWith('-') ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
