/** `tapir classify`: classes of images, by a model with labels. */
import { addPhotoFlags, type PhotoFlags } from '../../flags/photo-flags.js';
import { counted, shown } from '../../../base/printable.js';
import type { Command } from 'commander';
import {
  classifyImages,
  CLASSIFY_FIELDS,
  type ClassifiedImage,
  type ClassifyOptions,
} from '../../../products/features/probe/classify-images.js';
import { classifyByWords } from '../../../products/features/probe/classify-words.js';
import { findTextModels } from '../../flags/find-text-models.js';
import { invalidOption } from '../../../base/checks.js';
import { openModel } from '../../../run/model/open/open-model.js';
import { findModelFile, YES_FLAG, YES_HELP, type CommonFlags } from '../../flags/find-model.js';
import { readTransformFlag } from '../../flags/open-extractor.js';
import { addFlags } from '../../flags/option-flags.js';
import { EXIT } from '../../terminal/exit-code.js';
import type { Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';

interface ClassifyFlags extends CommonFlags, PhotoFlags, Pick<ClassifyOptions, 'top' | 'device'> {
  readonly model?: string;
  readonly words?: string;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('classify')
    .description(
      'name the classes of images with a classifier: a model with labels, such as "tapir probe --attach" writes; or by words, with a model such as CLIP. "tapir probe --zero-shot" labels a dataset by words',
    )
    .argument('<source...>', 'images, or one folder, pattern, list or archive')
    .option('--model <file>', 'the classifier: its first output has a score for each class')
    .option(
      '--words <list>',
      'classes in words, with commas: "a cat,a dog"; the model is CLIP’s or the like, its text tower beside it',
    )
    .option('--json', 'print a line of JSON per image', false)
    .option(rare(YES_FLAG), YES_HELP, false)
    .action((sources: string[], flags: ClassifyFlags) => runClassify(terminal, sources, flags));
  addFlags(command, CLASSIFY_FIELDS, {
    device: '--device <device>',
    top: '--top <n>',
  });
  addPhotoFlags(command, ['transform', 'clips']);
}

async function runClassify(
  terminal: Terminal,
  sources: readonly string[],
  flags: ClassifyFlags,
): Promise<void> {
  const { model, top, device, clips, json, yes } = flags;
  if (model === undefined) throw invalidOption('--model', 'the ONNX file of a classifier', model);
  const byWords = flags.words === undefined ? undefined : readWords(flags.words);
  const path = byWords
    ? (await findTextModels({ model, yes }, terminal)).model!
    : await findModelFile(model, terminal, yes);
  const transform = readTransformFlag(terminal, flags, await openModel(path));
  if (byWords && clips) throw invalidOption('--clip', 'left out with --words, which are for photos', clips);
  const settings = { transform, device, signal: terminal.signal };
  const describe = json ? describeAsJson : describeAsText;
  const [first] = sources;
  const source = sources.length === 1 ? first! : sources;
  let failures = 0;
  const images = byWords
    ? classifyByWords(path, source, byWords, settings)
    : classifyImages(path, source, { ...settings, top, clips });
  for await (const image of images) {
    if (image.error) failures++;
    terminal.out(`${describe(image)}\n`);
  }
  if (failures === 0) return;
  terminal.err(`note: ${counted(failures, 'image')} could not be read\n`);
  terminal.exitCode = EXIT.someFailed;
}

function readWords(given: string): string[] {
  return given
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

function describeAsText({ path, clipStart, classes, error }: ClassifiedImage): string {
  const found = error
    ? `${error.code}: ${error.message}`
    : classes.map(({ label, score }) => `${label} ${score.toFixed(4)}`).join(', ');
  const frame = clipStart === undefined ? '' : `, frame ${clipStart}`;
  return shown(`${path ?? '(bytes)'}${frame}: ${found}`);
}

function describeAsJson({ path, clipStart, classes, error }: ClassifiedImage): string {
  return JSON.stringify({
    path,
    clipStart,
    classes,
    error: error && { code: error.code, message: error.message },
  });
}
