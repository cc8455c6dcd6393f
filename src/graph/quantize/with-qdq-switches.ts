/** A rewrite → one that rounds to 8 bits where an input says so, with levels that are inputs as well. One session then measures any choice. */
import { ELEMENT_TYPE } from '../../onnx/wire/schema.js';
import type { Rewrite } from '../rewrite/rewrite.js';
import type { Read } from './layers.js';
import { QdqParts, type RoundedLayer } from './with-qdq.js';

/** What an input decides: a layer, whose weights and activations are rounded together, or both reads of a sum. */
export interface Unit {
  /** All of one node. */
  readonly reads: readonly Read[];
  readonly rounded: RoundedLayer | undefined;
}

/** A rewrite whose rounding is an input. */
export interface SwitchedRewrite {
  readonly rewrite: Rewrite;
  /** The name of the input bool `[units]`. */
  readonly switches: string;
  /** The names of the inputs float32 `[tensors]` and uint8 `[tensors]`: the levels of each tensor, unsigned. */
  readonly scales: string;
  readonly zeros: string;
  /** The name of the input float32 `[channels]`: what is taken from the biases of all layers that have one. */
  readonly corrections: string;
  /** Where the channels of such a layer are among the corrections, by unit. */
  readonly places: ReadonlyMap<number, { readonly start: number; readonly count: number }>;
}

/**
 * Lets every unit read its tensors as they are or rounded.
 *
 * @param units - In execution order of their nodes.
 * @param tensors - The names of the rounded tensors, in the order of the inputs' elements.
 */
export function withQdqSwitches(
  rewrite: Rewrite,
  units: readonly Unit[],
  tensors: readonly string[],
): SwitchedRewrite {
  const parts = new QdqParts(rewrite);
  const { names, builder } = parts;
  const [switches, scales, zeros, corrections] = ['switches', 'scales', 'zeros', 'corrections'].map((name) =>
    names.take(`tapir/int8/${name}`),
  ) as [string, string, string, string];
  const channels = new Map<number, { readonly start: number; readonly count: number }>();
  let start = 0;
  const places = new Map(tensors.map((tensor, place) => [tensor, place]));
  const rounded = new Map<string, string>();
  const roundedForm = (tensor: string): string => {
    const known = rounded.get(tensor);
    if (known !== undefined) return known;
    const at = builder.integers(places.get(tensor)!);
    const levels = [builder.add('Gather', [scales, at]), builder.add('Gather', [zeros, at])];
    const form = builder.add('DequantizeLinear', [
      builder.add('QuantizeLinear', [tensor, ...levels]),
      ...levels,
    ]);
    rounded.set(tensor, form);
    return form;
  };
  for (const [place, unit] of units.entries()) {
    const [{ node }] = unit.reads as readonly [Read];
    const isOn = builder.add('Gather', [switches, builder.integers(place)]);
    for (const { slot, tensor } of unit.reads)
      parts.patch(node, slot, builder.add('Where', [isOn, roundedForm(tensor), tensor]));
    if (unit.rounded) {
      const { layer, weights } = unit.rounded;
      const constant = parts.constant(layer.weights.value, weights, node, false);
      parts.patch(node, 1, builder.add('Where', [isOn, constant, layer.weights.value.name]));
      if (layer.bias) {
        const count = weights.scales.length;
        const own = builder.sliceFrom(corrections, 0, start, start + count);
        parts.patch(node, 2, builder.add('Sub', [layer.bias.value.name, own]));
        channels.set(place, { start, count });
        start += count;
      }
    }
    parts.place(node);
  }
  const made = parts.result();
  const inputs = [
    { name: switches, elemType: ELEMENT_TYPE.bool, dims: [units.length] },
    { name: scales, elemType: ELEMENT_TYPE.float32, dims: [tensors.length] },
    { name: zeros, elemType: ELEMENT_TYPE.uint8, dims: [tensors.length] },
    ...(start > 0 ? [{ name: corrections, elemType: ELEMENT_TYPE.float32, dims: [start] }] : []),
  ];
  const switched = { ...made, inputs: [...made.inputs, ...inputs] };
  return { rewrite: switched, switches, scales, zeros, corrections, places: channels };
}
