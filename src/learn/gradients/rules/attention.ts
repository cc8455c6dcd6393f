/** The rule of the Attention operator: softmax(scale · Q·Kᵀ + mask) · V. */
import { isFloatType } from '../../../onnx/file/wire/schema.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';

/** The score of what is masked out. */
const LOWEST = -3.4028234663852886e38;

const turned = (b: Backward, matrices: string): string => b.transpose(matrices, [0, 1, 3, 2]);

/** The weights of all values, computed again. A row that is masked out altogether has none, as in ONNX Runtime and in torch. */
function weights(b: Backward, scale: number): string {
  const isCausal = b.int('is_causal', 0) === 1;
  const isMasked = isCausal || b.has(3);
  let scores = b.mul(b.matmul(b.input(0), turned(b, b.input(1))), scale);
  if (isCausal) {
    const square = b.expand(1, b.sizes(scores));
    const isBefore = b.greater(b.nodes.add('Trilu', [square], { upper: 0 }), 0);
    scores = b.where(isBefore, scores, LOWEST);
  }
  if (b.has(3)) {
    const isNumber = isFloatType(b.elemTypeOf(b.value(3)) ?? 0);
    scores = isNumber ? b.add(scores, b.input(3)) : b.where(b.input(3), scores, LOWEST);
  }
  const shares = b.nodes.add('Softmax', [scores], { axis: -1 });
  return isMasked ? b.where(b.greater(scores, LOWEST), shares, 0) : shares;
}

const attention: Rule = (b) => {
  b.expectOneGradient();
  const [q, k] = [b.dims(b.value(0)), b.dims(b.value(1))];
  if (q.length !== 4) b.refuse('its inputs are not [batch, heads, tokens, channels]');
  if (q[1] === null || q[1] !== k[1]) b.refuse('queries and keys may have different numbers of heads');
  if (b.has(4) || b.has(5) || b.has(6)) b.refuse('it has a cache');
  if (b.float('softcap', 0) !== 0) b.refuse('it has a softcap');
  const channels = q[3];
  if (typeof channels !== 'number' && !b.hasAttribute('scale'))
    b.refuse('the number of its channels is open');
  const scale = b.float('scale', 1 / Math.sqrt(Number(channels)));
  let known: { readonly weights: string; readonly scores: string } | undefined;
  /** The weights, and the gradient of the scores. */
  const inner = (): { readonly weights: string; readonly scores: string } => {
    if (known) return known;
    const p = weights(b, scale);
    const weighted = b.mul(p, b.matmul(b.dy, turned(b, b.input(2))));
    return (known = { weights: p, scores: b.sub(weighted, b.mul(p, b.sum(weighted, [3]))) });
  };
  return [
    () => b.mul(b.matmul(inner().scores, b.input(1)), scale),
    () => b.mul(b.matmul(turned(b, inner().scores), b.input(0)), scale),
    () => b.matmul(turned(b, inner().weights), b.dy),
    () => b.fit(inner().scores, [q[0]!, q[1]!, q[2]!, k[2]!], b.value(3)),
  ];
};

export const attentions: Rules = { Attention: attention };
