/** Values before and behind the nodes that round them to levels in 8 bits. */
import type { Node, Value } from './graph.js';

const QUANTIZERS: ReadonlySet<string> = new Set(['QuantizeLinear', 'DequantizeLinear']);
/** Quantized values pass through a QuantizeLinear and a DequantizeLinear. */
const MAX_HOPS = 4;
/** What `quantize/with-qdq` calls a tensor whose channels it scales before it rounds them. */
const SMOOTHED = /\/smoothed(?:_\d+)?$/;

/** Whether onnxruntime's quantizer added a node: it calls it after the tensor that it reads or gives. */
export function isAddedRounding({ name, opType }: Node): boolean {
  return QUANTIZERS.has(opType) && name.endsWith(`_${opType}`);
}

/** The value that quantization reads, where a value came through it. */
export function beforeRounding(value: Value): Value {
  let at = value;
  for (let hops = 0; at.producer?.inputs[0] && hops < MAX_HOPS; hops++) {
    if (!QUANTIZERS.has(at.producer.opType) && !SMOOTHED.test(at.name)) break;
    [at] = at.producer.inputs as [Value];
  }
  return at;
}

/** The nodes that read a node's value, itself or through quantization. */
export function usersOf(node: Node, hops = 0): readonly Node[] {
  const users = node.outputs.flatMap((output) => output?.uses ?? []);
  if (hops === MAX_HOPS) return users;
  return users.flatMap((user) => (QUANTIZERS.has(user.opType) ? usersOf(user, hops + 1) : [user]));
}
