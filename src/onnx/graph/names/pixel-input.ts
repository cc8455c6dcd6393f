/** What a graph says about the pixels that it takes: the form of its image input, and the arithmetic right behind it. */
import { tensorType, type Graph, type Node, type Value } from '../graph.js';

/** The image input of a graph. Sizes are undefined where the file leaves them open. */
export interface PixelInput {
  readonly name: string;
  readonly elemType: number;
  readonly isLast: boolean;
  readonly channels: number | undefined;
  readonly height: number | undefined;
  readonly width: number | undefined;
  /** Nodes right behind the input that compute with constants, in order. */
  readonly steps: readonly PixelStep[];
}

/** A node that shifts or scales its input, and its other operands. */
export interface PixelStep {
  readonly node: Node;
  readonly constants: readonly Value[];
  /** Whether the pixels are the first operand. */
  readonly isFirst: boolean;
}

/** Numbers of channels that tell which axis they are on. */
const COUNTS: ReadonlySet<unknown> = new Set([1, 3, 4]);
const ARITHMETIC: ReadonlySet<string> = new Set(['Add', 'Sub', 'Mul', 'Div']);
/** Nodes that pass values on. */
const PASSIVE: ReadonlySet<string> = new Set(
  'Identity Cast Transpose QuantizeLinear DequantizeLinear'.split(' '),
);

/** Whether the channels of an input without its batch axis come last; undefined if the sizes do not tell. */
export function hasChannelsLast([first, , third]: readonly unknown[]): boolean | undefined {
  return COUNTS.has(first) === COUNTS.has(third) ? undefined : COUNTS.has(third);
}

/** The only input with four axes; undefined if there are several, or none. */
export function readPixelInput(graph: Graph): PixelInput | undefined {
  const [input, ...others] = graph.inputs.filter((value) => tensorType(value)?.dims?.length === 4);
  if (!input || others.length > 0) return undefined;
  const { dims, elemType } = tensorType(input)!;
  const sizes = dims!.slice(1);
  const isLast = hasChannelsLast(sizes) === true;
  const [height, width, channels] = (isLast ? sizes : [sizes[1], sizes[2], sizes[0]]).map((size) =>
    typeof size === 'number' && size > 0 ? size : undefined,
  );
  return { name: input.name, elemType, isLast, channels, height, width, steps: readSteps(input) };
}

function readSteps(input: Value): PixelStep[] {
  const steps: PixelStep[] = [];
  let value: Value | undefined = input;
  while (value?.uses.length === 1) {
    const node: Node = value.uses[0]!;
    const constants = node.inputs.filter((one) => one !== undefined && one !== value) as Value[];
    const isNorm = node.opType === 'BatchNormalization';
    if (isNorm || ARITHMETIC.has(node.opType)) {
      if (node.domain !== '' || constants.length !== (isNorm ? 4 : 1) || !constants.every(isConstant)) break;
      steps.push({ node, constants, isFirst: node.inputs[0] === value });
    } else if (!PASSIVE.has(node.opType)) break;
    value = node.outputs[0];
  }
  return steps;
}

function isConstant({ initializer, producer }: Value): boolean {
  return initializer !== undefined || producer?.opType === 'Constant';
}
