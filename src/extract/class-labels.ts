/** The labels of a classifier's classes, in the metadata of its file. */
import { invalidOption } from '../base/checks.js';
import { reasonOf } from '../base/errors.js';
import { readModelMetadata, replaceMetadata } from '../onnx/file/model-metadata.js';
import { WireReader } from '../onnx/file/wire/wire.js';
import { modelInternals } from '../run/model/open/model-state.js';
import { settingsOf } from '../run/model/open/model-settings.js';
import { deriveModel, type OnnxModel } from '../run/model/open/open-model.js';

/** A label per class, in the order of the classes, or why there are no labels. */
export type ClassLabels = { readonly labels: readonly string[] } | { readonly problem: string };

/**
 * Reads the labels of a model. The first place that has them counts: `MODEL.onnx.tapir.json` beside it; entry `labels` of its metadata, a
 * JSON array of strings as `tapir train` writes it; entry `names`, a Python dict or list of strings as Ultralytics writes it.
 */
export async function readClassLabels(model: OnnxModel): Promise<ClassLabels> {
  const own = settingsOf(model)?.labels;
  if (own) return { labels: own };
  const metadata = await modelInternals
    .of(model)
    .withSource((source) => readModelMetadata(new WireReader(source), ['labels', 'names']));
  const [labels, names] = [metadata.get('labels'), metadata.get('names')];
  if (labels !== undefined) return parseJsonLabels(labels);
  return names === undefined ? { problem: 'its metadata has no labels' } : parsePythonLabels(names);
}

/** A model with labels: entry `labels` of its metadata. All other bytes are those of the given model. */
export async function withClassLabels(model: OnnxModel, labels: readonly string[]): Promise<OnnxModel> {
  const entries = { labels: JSON.stringify(labels) };
  const chunks = await modelInternals
    .of(model)
    .withSource((source) => replaceMetadata(new WireReader(source), entries));
  return deriveModel(model, chunks);
}

function parseJsonLabels(text: string): ClassLabels {
  let labels: unknown;
  try {
    labels = JSON.parse(text);
  } catch (error) {
    return { problem: `entry "labels" of its metadata is no JSON (${reasonOf(error)})` };
  }
  return isTextList(labels)
    ? { labels }
    : { problem: 'entry "labels" of its metadata is no JSON array of strings' };
}

/** Returns the labels that a caller gives, or throws `OPTION_INVALID`. */
export function checkLabels(option: string, value: unknown): readonly string[] {
  if (isTextList(value)) return [...value];
  throw invalidOption(option, 'a list of strings, one per class', value);
}

/** Whether a value is a list of texts, and not empty. */
function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((label) => typeof label === 'string');
}

/** An entry of a dict (`0: 'cat'`) or of a list (`'cat'`), and what follows. Strings as Python's `repr` writes them. */
const DICT_ENTRY = /\s*(\d+)\s*:\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*([,}])/y;
const LIST_ENTRY = /\s*()('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*([,\]])/y;

/** Parses `{0: 'cat', 1: "dog's"}` or `['cat', "dog's"]`. */
function parsePythonLabels(text: string): ClassLabels {
  const given = text.trim();
  const isDict = given.startsWith('{');
  if (!isDict && !given.startsWith('[')) return unreadable(given, 0);
  const pattern = isDict ? DICT_ENTRY : LIST_ENTRY;
  const labels: string[] = [];
  let at = 1;
  for (let mark = ','; mark === ',';) {
    pattern.lastIndex = at;
    const [whole, index, literal, next] = pattern.exec(given) ?? [];
    const label = literal === undefined ? undefined : unquote(literal);
    if (label === undefined) return unreadable(given, at);
    if (isDict && Number(index) !== labels.length)
      return { problem: `entry "names" of its metadata has class ${index} in place of ${labels.length}` };
    labels.push(label);
    at += whole!.length;
    mark = next!;
  }
  return at === given.length ? { labels } : unreadable(given, at);
}

function unreadable(text: string, at: number): ClassLabels {
  const found = JSON.stringify(text.slice(at, at + 30));
  return {
    problem: `entry "names" of its metadata is no Python dict or list of strings (at ${at}: ${found})`,
  };
}

/** Escapes of one sign. */
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  '\\': '\\',
  "'": "'",
  '"': '"',
};
const ESCAPE = /\\(?:x([\da-f]{2})|u([\da-f]{4})|U([\da-f]{8})|(.))/g;

/** The text of a Python string; undefined for escapes that `repr` does not write. */
function unquote(literal: string): string | undefined {
  let isKnown = true;
  const text = literal.slice(1, -1).replace(ESCAPE, (_, byte, short, long, sign: string | undefined) => {
    const code = Number.parseInt((byte ?? short ?? long ?? '') as string, 16);
    if (sign === undefined && code <= 0x10ffff) return String.fromCodePoint(code);
    const character = sign === undefined ? undefined : ESCAPES[sign];
    isKnown &&= character !== undefined;
    return character ?? '';
  });
  return isKnown ? text : undefined;
}
