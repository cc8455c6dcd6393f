/** The manifest as rows of text. Opening the dataset checks only what reading needs; every other field may hold anything. */
import { shown } from '../../../base/printable.js';
import { describeCosines } from '../../../datasets/records/float32-comparison.js';
import { formatBytes, formatCount, formatSeconds } from '../../../html/numbers.js';

/** A name and its text. */
export type Fact = readonly [name: string, text: string];

/** The manifest's facts by chapter. */
export interface Facts {
  readonly title: string;
  /** The outputs, for the subtitle. */
  readonly requests: readonly string[];
  /** As recorded, such as `2026-11-21T19:33:00.000Z`; empty if the manifest does not say. */
  readonly createdAt: string;
  readonly imagesPerSecond: number | undefined;
  readonly seconds: number | undefined;
  readonly device: string;
  /** Folder that held the images. */
  readonly imageFolder: string | undefined;
  readonly chapters: readonly { readonly title: string; readonly facts: readonly Fact[] }[];
}

/** Reads the facts; leaves out what the manifest does not say. */
export function readFacts(manifest: unknown): Facts {
  const at = (...path: string[]): unknown => valueAt(manifest, path);
  const source = textOf(at('source', 'location'));
  const seconds = numberOf(at('run', 'seconds'));
  const inputs = inputsOfLatestRun(manifest);
  const file = textOf(at('model', 'file'));
  const requests = listOf(at('request')).map((entry) => requestText(entry));
  return {
    title: file === '' ? 'Dataset' : file.replace(/\.onnx$/i, ''),
    requests: requests.map(([key]) => key),
    createdAt: textOf(at('createdAt')),
    imagesPerSecond: seconds !== undefined && seconds > 0 ? inputs / seconds : undefined,
    seconds,
    device: textOf(at('run', 'device')),
    imageFolder: source === '' ? undefined : source,
    chapters: [
      { title: 'Model', facts: existing(entriesOf(at('model'))) },
      { title: 'Request', facts: requests },
      { title: 'Images', facts: existing([['source', source], ...entriesOf(at('transform'))]) },
      { title: 'Run', facts: existing(entriesOf(at('run'))) },
      { title: 'Versions', facts: existing(entriesOf(at('versions'))) },
    ].filter(({ facts }) => facts.length > 0),
  };
}

function requestText(entry: unknown): Fact {
  const text = (name: string): string => textOf(valueAt(entry, [name]));
  const computed = listOf(valueAt(entry, ['computed'])).map(textOf);
  const [key, request, tensor] = [text('key'), text('request'), text('tensor')];
  const name = request === key || request === '' ? key : `${request} → ${key}`;
  return [name, [tensor === '' ? '' : `tensor ${tensor}`, ...computed].filter(Boolean).join(', then ')];
}

/** Inputs of the latest run only, because the manifest records the time of that run only. */
function inputsOfLatestRun(manifest: unknown): number {
  const firstShard = numberOf(valueAt(listOf(valueAt(manifest, ['runs'])).at(-1), ['firstShard']));
  const shards = listOf(valueAt(manifest, ['shards'])).slice(firstShard ?? 0);
  return shards.reduce<number>((sum, shard) => sum + (numberOf(valueAt(shard, ['inputs'])) ?? 0), 0);
}

function existing(facts: readonly Fact[]): Fact[] {
  return facts.filter(([, text]) => text !== '');
}

/** Fields of an object as text, in their order; sizes and times in units that people read. */
function entriesOf(value: unknown): Fact[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).map(([name, inner]): Fact => {
    const number = numberOf(inner);
    if (number !== undefined && /(?:^b|B)ytes$/.test(name))
      return [spaced(name.replace(/bytes$/i, '')) || 'size', formatBytes(number)];
    if (number !== undefined && name === 'seconds') return ['time', formatSeconds(number)];
    if (name === 'unreadFiles') return ['files not read', countsText(inner)];
    if (name === 'againstFloat32') return ['against float32', comparisonText(inner)];
    return [spaced(name), textOf(inner)];
  });
}

/** `{ '.heic': 12 }` → `12 .heic`. */
function countsText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return '';
  return textOf(Object.entries(value).map(([name, count]) => `${textOf(count)} ${name}`));
}

/** `{ images: 16, cosine: { f: { least: 0.9993, … } } }` → `16 images: cosine ≥ 0.9993 (f)`. */
function comparisonText(value: unknown): string {
  const images = numberOf(valueAt(value, ['images']));
  const cosine = valueAt(value, ['cosine']);
  if (images === undefined || typeof cosine !== 'object' || cosine === null) return '';
  const outputs = Object.entries(cosine).flatMap(([key, inner]) => {
    const least = numberOf(valueAt(inner, ['least']));
    return least === undefined ? [] : [[key, { least }] as const];
  });
  return shown(`${images} images: ${describeCosines(Object.fromEntries(outputs))}`.slice(0, MAX_TEXT));
}

/** `limitPixels` → `limit pixels`. */
function spaced(name: string): string {
  return shown(name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)).trim();
}

const MAX_TEXT = 400;

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return shown(value.slice(0, MAX_TEXT));
  if (Array.isArray(value)) return value.slice(0, 50).map(textOf).join(', ').slice(0, MAX_TEXT);
  const size = [valueAt(value, ['height']), valueAt(value, ['width'])];
  if (size.every((side) => typeof side === 'number')) return `${size.join(' × ')} (height × width)`;
  if (typeof value === 'object') return shown(JSON.stringify(value).slice(0, MAX_TEXT));
  if (typeof value === 'number')
    return Number.isInteger(value) && value >= 1e5 ? formatCount(value) : String(value);
  return typeof value === 'boolean' ? String(value) : '';
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let inner = value;
  for (const name of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, name)) return undefined;
    inner = (inner as Record<string, unknown>)[name];
  }
  return inner;
}
