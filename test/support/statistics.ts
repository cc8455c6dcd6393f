/** torch's BatchNorm statistics (shared/fixtures/statistics). */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { TensorLike } from 'onnx-tapir';
import type { StateSource } from 'onnx-tapir/parameters';
import type { BatchNormEstimate } from 'onnx-tapir/train';
import { createFeatureExtractor } from 'onnx-tapir';
import { readStateDict } from 'onnx-tapir/parameters';
import type { Tensor } from '../../src/onnx/tensor/tensor.js';
import { sharedFixtures } from './fixtures.js';
import { imageOf, type Facts } from './zoo.js';

interface Made {
  readonly shape: readonly number[];
  readonly seed: string;
  readonly scale: number;
  readonly shift: number;
}

interface Values {
  readonly shape: readonly number[];
  readonly value: readonly number[];
}

interface Channels {
  readonly mean: readonly number[];
  readonly var: readonly number[];
}

interface MatchedLayers {
  readonly layers: readonly {
    readonly norm: string;
    readonly target_mean: readonly number[];
    readonly target_var: readonly number[];
  }[];
  readonly logits: Values;
}

export interface StatisticsCase {
  readonly case: string;
  readonly data: Made;
  readonly probe: Made;
  readonly source: Made;
  readonly batches: readonly {
    readonly rows: readonly [number, number];
    readonly devices: readonly number[];
  }[];
  readonly layers: readonly {
    readonly name: string;
    readonly momentum: number;
    readonly count_per_sample: number;
  }[];
  readonly state_dict: string;
  readonly modes: Readonly<
    Record<string, { readonly statistics: Readonly<Record<string, Channels>>; readonly logits: Values }>
  >;
  readonly exports: readonly {
    readonly file: string;
    readonly batch_norm_nodes: number;
    readonly folded: number;
    readonly moment_matching?: {
      readonly layers: readonly {
        readonly conv: string;
        readonly norm: string;
        readonly source_mean: readonly number[];
        readonly source_var: readonly number[];
      }[];
      readonly not_folded: readonly string[];
      readonly one_pass: MatchedLayers;
      readonly sequential: MatchedLayers;
    };
  }[];
}

export const statisticsFolder = sharedFixtures === undefined ? '' : join(sharedFixtures, 'statistics');
export const CASES = ['resnet', 'resnet_one', 'mobile', 'dense'] as const;

function readJson(path: string): unknown {
  const bytes = existsSync(path) ? readFileSync(path) : gunzipSync(readFileSync(`${path}.gz`));
  return JSON.parse(bytes.toString());
}

export function readCase(name: string): StatisticsCase {
  return readJson(join(statisticsFolder, name, `${name}.json`)) as StatisticsCase;
}

/** A model or a state dict of a case. */
export function caseFile({ case: name }: StatisticsCase, file: string): string {
  return join(statisticsFolder, name, file);
}

/** Images by formula. */
export function makeImages({ shape, seed, scale, shift }: Made): Tensor<'float32'> {
  const image = imageOf({ input: { shape, seed } } as unknown as Facts);
  return { ...image, data: image.data.map((value) => Math.fround(Math.fround(value * scale) + shift)) };
}

/** The batches of a case. */
export function batchesOf({ data, batches }: StatisticsCase): Tensor<'float32'>[] {
  const all = makeImages(data);
  return batches.map(({ rows: [from, to] }) => rowsOf(all, from, to));
}

export function rowsOf({ dims, data }: Tensor<'float32'>, from: number, to: number): Tensor<'float32'> {
  const row = dims.slice(1).reduce((product, size) => product * size, 1);
  return { dtype: 'float32', dims: [to - from, ...dims.slice(1)], data: data.slice(from * row, to * row) };
}

export function stateOf(one: StatisticsCase): Promise<StateSource> {
  return readStateDict(caseFile(one, one.state_dict));
}

/** How far an estimate is from the expected one: as shares of the tolerance's units, so below 1e-5 is equal. */
export async function distanceOf(
  one: StatisticsCase,
  mode: string,
  { layers, model }: BatchNormEstimate,
): Promise<{ readonly mean: number; readonly variance: number; readonly logits: number }> {
  const { statistics, logits } = one.modes[mode]!;
  let [mean, variance] = [0, 0];
  for (const [name, expected] of Object.entries(statistics)) {
    const found = layers.find((layer) => layer.name === name);
    if (!found) throw new Error(`${name} is missing among ${layers.map((layer) => layer.name).join()}`);
    const largest = Math.sqrt(Math.max(...expected.var));
    expected.mean.forEach((value, c) => (mean = Math.max(mean, Math.abs(value - found.mean[c]!) / largest)));
    expected.var.forEach(
      (value, c) => (variance = Math.max(variance, Math.abs(found.variance[c]! / value - 1))),
    );
  }
  return { mean, variance, logits: await logitsDistance(one, model, logits) };
}

export async function logitsDistance(
  { probe }: StatisticsCase,
  model: BatchNormEstimate['model'],
  { value }: Values,
): Promise<number> {
  const extractor = await createFeatureExtractor(model, [model.outputs[0]!.name]);
  const outputs = await extractor.run(makeImages(probe) as TensorLike);
  await extractor.close();
  const found = Object.values(outputs)[0]!.data as Float32Array;
  const largest = Math.max(...value.map(Math.abs));
  return Math.max(...value.map((expected, i) => Math.abs(expected - found[i]!))) / largest;
}
