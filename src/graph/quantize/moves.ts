/** Nodes that 8-bit levels pass through. */
import type { Attribute } from '../../onnx/scan/attributes.js';
import type { Node } from '../graph.js';
import { operatorOf } from '../operators/operators.js';

/** Whether a node only moves elements, as far as its attributes say. */
export function movesLevels(node: Node, attributes: ReadonlyMap<string, Attribute>): boolean {
  const { domain, opType } = node;
  if (domain !== '' || operatorOf(node)?.levels === undefined) return false;
  if (opType === 'Pad')
    return (attributes.get('mode')?.text ?? 'constant') === 'constant' && !attributes.has('value');
  if (opType === 'Resize') {
    const hasFill = attributes.get('coordinate_transformation_mode')?.text === 'tf_crop_and_resize';
    return !hasFill && (attributes.get('mode')?.text ?? 'nearest') === 'nearest';
  }
  return true;
}

/** The slots whose elements a moving node passes on. */
export function movedSlots(node: Node): readonly number[] {
  return operatorOf(node)?.levels === 'all' ? [...node.inputs.keys()] : [0];
}
