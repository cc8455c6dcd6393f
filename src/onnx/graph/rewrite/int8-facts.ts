/** What a cut has of a model in 8 bits, bodies and functions included. */
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import type { Node } from '../graph.js';
import type { Operator } from '../operators/operator.js';
import { operatorOf } from '../operators/operators.js';
import type { Cut } from './prune.js';

/** What the operators of a cut say. */
export interface Int8Facts {
  /** Activations are 8-bit somewhere, so results differ from those of float32. */
  readonly isInt8: boolean;
  /** Something is 8-bit, if only weights that are widened before use. */
  readonly isQuantised: boolean;
  /** A scale is taken from a whole batch. */
  readonly sharesScale: boolean;
  /** Activations are rounded with scales that are constants, so that NaN becomes a number. */
  readonly hidesNan: boolean;
}

/** Reads the facts. */
export function readInt8Facts({ nodes, functions }: Pick<Cut, 'nodes' | 'functions'>): Int8Facts {
  const top = [...nodes].flatMap((node) => (isWider(node) ? [] : (operatorOf(node) ?? [])));
  const bodies = [...nodes].flatMap(({ scanned }) => scanned.bodies ?? []);
  const inside = [...bodies, ...[...functions].map(({ content }) => content)].flatMap((content) =>
    [...content.operators.values()].flatMap((one): Operator | [] => operatorOf(one) ?? []),
  );
  const operators = [...top, ...inside];
  return {
    isInt8: operators.some(({ int8 }) => int8 === 'computes'),
    isQuantised: operators.some(({ int8 }) => int8 !== undefined),
    sharesScale: operators.some(({ sharesScale }) => sharesScale === true),
    hidesNan: [...nodes].some(widensActivations),
  };
}

/** Whether a node turns 8-bit activations into float32 by a constant scale. */
function widensActivations({ opType, inputs: [levels, scale] }: Node): boolean {
  return (
    opType === 'DequantizeLinear' && levels?.initializer === undefined && scale?.initializer !== undefined
  );
}

const EIGHT_BITS: ReadonlySet<number> = new Set([ELEMENT_TYPE.int8, ELEMENT_TYPE.uint8]);

/** Whether a node rounds to another type than 8-bit integers, as its constant zero point says. */
function isWider({ opType, inputs }: Node): boolean {
  const zero = opType === 'QuantizeLinear' ? inputs[2]?.initializer : undefined;
  return zero !== undefined && !EIGHT_BITS.has(zero.elemType);
}
