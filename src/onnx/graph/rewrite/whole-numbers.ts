/** Values that a file has only as whole numbers, with the scale that the file gives. */
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import type { TensorType } from '../../file/wire/write-model.js';
import type { Value } from '../graph.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { replaceOutput, type Rewrite, type RewriteOutput } from './rewrite.js';

/**
 * Makes numbers of an output that is whole numbers.
 *
 * @param levels - Of the output.
 * @param isLast - Whether nothing else is added after it, so that it gets the key.
 */
export function withNumbers(
  rewrite: Rewrite,
  output: RewriteOutput,
  { scale, zero }: NonNullable<RewriteOutput['levels']>,
  isLast: boolean,
  typeOf: (value: Value) => TensorType | undefined,
): readonly [Rewrite, RewriteOutput] {
  const builder = new NodeBuilder(rewrite.names, output.key, opsetOf(rewrite.cut.graph));
  const inputs = [output.tensor, scale.name, ...(zero ? [zero.name] : [])];
  const key = isLast ? rewrite.names.claim(output.key) : undefined;
  const tensor = builder.add('DequantizeLinear', inputs, {}, key);
  const { dims = null } = output.type ?? rewrite.restated.get(output.value) ?? typeOf(output.value) ?? {};
  const type = { elemType: scale.initializer?.elemType ?? ELEMENT_TYPE.float32, dims };
  const made = { ...output, tensor, type, computed: ['DequantizeLinear'] };
  return [replaceOutput(rewrite, output, made, builder), made];
}
