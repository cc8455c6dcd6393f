/** The manifest as rows of text. Opening the dataset checks only what reading needs; every other field may hold anything. */
import { dirname } from 'node:path';
import { describeCosines } from '../../../../datasets/records/float32-comparison.js';
import { readPattern } from '../../../../datasets/sources/folders/pattern.js';
import { factsOf, textOf, type Fact } from '../../../../base/html/facts.js';

/** The manifest's facts by chapter. */
export interface Facts {
  /** The name of the model's file; empty if the manifest names none. */
  readonly model: string;
  /** The outputs, for the subtitle. */
  readonly requests: readonly string[];
  /** As recorded, such as `2026-11-21T19:33:00.000Z`; empty if the manifest does not say. */
  readonly createdAt: string;
  /** Folder that held the images. */
  readonly imageFolder: string | undefined;
  readonly chapters: readonly { readonly title: string; readonly facts: readonly Fact[] }[];
}

/** Reads the facts; leaves out what the manifest does not say. */
export function readFacts(manifest: unknown): Facts {
  const at = (...path: string[]): unknown => valueAt(manifest, path);
  const source = textOf(at('source', 'location'));
  const requests = listOf(at('request')).map((entry) => requestText(entry));
  return {
    model: textOf(at('model', 'file')),
    requests: Object.keys(Object(at('features')) as object),
    createdAt: textOf(at('createdAt')),
    imageFolder: source === '' ? undefined : imageFolderOf(textOf(at('source', 'kind')), source),
    chapters: [
      { title: 'Model', facts: factsOf(at('model')) },
      { title: 'Request', facts: requests },
      { title: 'Images', facts: [...factsOf({ folder: source }), ...factsOf(at('transform'))] },
      { title: 'Run', facts: runFacts(at('run'), inputsOfLatestRun(manifest)) },
      { title: 'Versions', facts: factsOf(at('versions')) },
    ].filter(({ facts }) => facts.length > 0),
  };
}

/** Where the paths of the metadata begin; undefined if the manifest does not tell. */
function imageFolderOf(kind: string, location: string): string | undefined {
  if (kind === 'list') return dirname(location);
  // A table that was imported lies anywhere.
  if (kind === 'table') return undefined;
  try {
    return kind === 'glob' ? readPattern(location).base : location;
  } catch {
    return undefined; // Not a pattern that we wrote.
  }
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

/** The run, with its speed, and with two of its records in words. */
function runFacts(run: unknown, inputs: number): Fact[] {
  if (typeof run !== 'object' || run === null) return [];
  const { unreadFiles, againstFloat32, ...plain } = run as Readonly<Record<string, unknown>>;
  const seconds = numberOf(plain['seconds']) ?? 0;
  return factsOf({
    ...plain,
    imagesPerSecond: seconds > 0 ? Number((inputs / seconds).toPrecision(3)) : null,
    filesNotRead: countsText(unreadFiles),
    againstFloat32: comparisonText(againstFloat32),
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
  return `${images} images: ${describeCosines(Object.fromEntries(outputs))}`;
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
