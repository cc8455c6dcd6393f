/** A linear head after an output: the output then holds its result. */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import { tensorType } from '../graph.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { replaceOutput, type Rewrite, type RewriteOutput } from './rewrite.js';

/** Weights as torch's Linear has them. */
export interface LinearHead {
  /** `[classes, features]`, row-major. */
  readonly weight: Float32Array;
  /** `[classes]`. */
  readonly bias: Float32Array;
  /** The module that its tensors are named for: `NAME.weight` and `NAME.bias`, which {@link OnnxModel.parameters} then lists. */
  readonly module?: string;
}

/** Since this operator set, a sum broadcasts by itself. */
const ADD_BROADCASTS = 7;

/**
 * Adds a linear layer after an output: `[N, …]` is flattened to `[N, features]` and becomes `[N, classes]`.
 *
 * @param key - The key of the result, in place of the output's.
 * @throws {@link TapirError} `OUTPUT_MISFIT` if the output has another number of features, or the model's operator set is older than 7.
 */
export function withLinearHead(
  rewrite: Rewrite,
  output: RewriteOutput,
  key: string,
  { weight, bias, module }: LinearHead,
): Rewrite {
  const opset = opsetOf(rewrite.cut.graph);
  if (opset < ADD_BROADCASTS)
    throw misfit(output, `operator set ${opset}`, `a head needs operator set ${ADD_BROADCASTS}`);
  const features = weight.length / bias.length;
  const dims = output.type?.dims ?? tensorType(output.value)?.dims;
  const inner = dims?.slice(1).reduce<number>((product, size) => product * Number(size ?? Number.NaN), 1);
  if (inner !== undefined && !Number.isNaN(inner) && inner !== features)
    throw misfit(output, `[${dims!.join(', ')}]`, `the head takes ${features} features`);
  const classes = bias.length;
  const builder = new NodeBuilder(rewrite.names, 'head', opset);
  const flat = builder.add('Flatten', [output.tensor], { axis: 1 });
  const named = (word: string): string | undefined => module && `${module}.${word}`;
  const inputs = [
    flat,
    builder.floats([classes, features], weight, named('weight')),
    builder.floats([classes], bias, named('bias')),
  ];
  const tensor = builder.add('Gemm', inputs, { transB: 1 });
  const headed = {
    ...output,
    key,
    tensor,
    type: { elemType: ELEMENT_TYPE.float32, dims: [output.type?.dims?.[0] ?? null, classes] },
    layout: undefined,
    computed: [...output.computed, 'linear head'],
  };
  return replaceOutput(rewrite, output, headed, builder);
}

function misfit({ request }: RewriteOutput, actual: string, reason: string): TapirError<'OUTPUT_MISFIT'> {
  return new TapirError('OUTPUT_MISFIT', `"${request}" is ${actual}, but ${reason}`, {
    details: { output: request, actual, reason },
  });
}
