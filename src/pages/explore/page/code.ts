/** The code that makes a cut: TypeScript, the command line, Python. This file uses no part of the browser. */
import type { PhotoCode } from './data.js';

export type Language = 'typescript' | 'shell' | 'python';

export const LANGUAGES: Readonly<Record<Language, string>> = {
  typescript: 'TypeScript',
  shell: 'Command line',
  python: 'Python',
};

/** A file name for a cut: `resnet50-layer4.onnx`. */
export function cutFile(path: string, names: readonly string[]): string {
  const stem = stemOf(path);
  const last = (names.at(-1) ?? 'cut').split(/[.:/]/).filter((part) => /\w/.test(part));
  return `${stem}-${
    last
      .slice(-2)
      .join('-')
      .replace(/[^\w-]/g, '_') || 'cut'
  }.onnx`;
}

function stemOf(path: string): string {
  return (path.split(/[\\/]/).at(-1) ?? 'model').replace(/\.onnx$/i, '');
}

/**
 * The code for some names.
 *
 * @param photoCode - How a photo is prepared.
 */
export function writeCode(
  language: Language,
  path: string,
  names: readonly string[],
  photoCode: PhotoCode,
): string {
  if (language === 'typescript') return writeTypeScript(path, names, photoCode);
  return language === 'shell' ? writeShell(path, names) : writePython(path, names);
}

function writeTypeScript(path: string, names: readonly string[], { transform, isTensor }: PhotoCode): string {
  const cut = `const extractor = await createFeatureExtractor(${quote(path)}, [${names.map(quote).join(', ')}]);`;
  // What floats do not fit goes through the loader, which makes any feed, and fills fixed batches.
  if (!isTensor)
    return `import { createFeatureExtractor, embedImages } from 'onnx-tapir';

${cut}
for await (const { features, error } of embedImages(extractor, ['photo.jpg']${transform && `, { transform: ${transform} }`})) {
  if (error) throw error;
  const { dims, data } = features[${quote(names[0]!)}];
}
await extractor.close();
`;
  return `import { createFeatureExtractor, loadImage } from 'onnx-tapir';

${cut}
const image = await loadImage('photo.jpg'${transform && `, ${transform}`});
const features = await extractor.run(image.toTensor());
const { dims, data } = features[${quote(names[0]!)}];
await extractor.close();
`;
}

function writeShell(path: string, names: readonly string[]): string {
  const returns = names.map((name) => `--return ${shellQuote(name)}`);
  return `tapir extract ${shellQuote(path)} ${returns.join(' ')} --out ${shellQuote(cutFile(path, names))}\n`;
}

function writePython(path: string, names: readonly string[]): string {
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
