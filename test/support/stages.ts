/** Small networks with known cut points, balances and exits (test/fixtures/stages). */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { fixturePath } from './fixtures.js';

/** A tensor that alone separates the graph. */
export interface KnownPoint {
  readonly tensor: string;
  readonly shape: readonly (number | string)[];
  readonly bytes_per_sample: number;
  readonly macs_before: number;
  readonly weights_before: number;
  readonly nodes_in_front: number;
  readonly bit_equal: Readonly<Record<'all' | 'extended', boolean>>;
}

/** What is known about cutting a network. */
export interface KnownCuts {
  readonly input: { readonly name: string; readonly shape: readonly number[] };
  readonly macs: number;
  readonly weights: number;
  readonly nodes_that_depend_on_the_input: number;
  readonly node_macs: readonly { readonly name: string; readonly op: string; readonly macs: number }[];
  readonly cut_points: readonly KnownPoint[];
  readonly balanced: readonly {
    readonly stages: number;
    readonly max_macs: number;
    readonly cheapest: readonly string[];
    readonly bytes_per_sample: number;
    readonly stage_macs: readonly number[];
    readonly stage_weights: readonly number[];
    readonly stage_nodes: readonly number[];
    readonly all_optimal: readonly (readonly string[])[];
    readonly by_weights: { readonly max_weights: number };
  }[];
  readonly file_order: {
    readonly positions: readonly {
      readonly tensors: readonly string[];
      readonly bytes_per_sample: number;
      readonly macs_before: number;
    }[];
    readonly balanced: readonly {
      readonly max_tensors: number;
      readonly stages: number;
      readonly max_macs: number;
    }[];
  };
}

/** What is known about a network with exits. */
export interface KnownExits {
  readonly input: { readonly seed: string; readonly scale_seed: string; readonly shape: readonly number[] };
  readonly exits: readonly string[];
  readonly macs: { readonly up_to_exit: readonly number[] };
  readonly logits: readonly { readonly exit: string; readonly value: readonly number[] }[];
  readonly cases: readonly {
    readonly criterion: 'confidence' | 'margin' | 'entropy';
    readonly thresholds: readonly number[];
    readonly exit: readonly number[];
    readonly argmax: readonly number[];
  }[];
  readonly optional_outputs: readonly {
    readonly request: readonly string[];
    readonly macs: number;
    readonly weights: number;
    readonly initializers: number | readonly string[];
  }[];
}

/** The networks with cut points. */
export const CUT_NETWORKS = ['resnet', 'vit', 'dense', 'unet'] as const;

function unpack(name: string): Buffer {
  return gunzipSync(readFileSync(fixturePath(`stages/${name}.gz`)));
}

/** The bytes of a network's ONNX file. */
export function stagesModel(name: string): Uint8Array {
  return unpack(`${name}.onnx`);
}

/** What is known about a network. */
export function stagesFacts<Facts>(name: string): Facts {
  return JSON.parse(unpack(`${name}.json`).toString()) as Facts;
}
