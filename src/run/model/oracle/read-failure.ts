/** Reads ONNX Runtime's message about a failed run: were the sizes too large or too small? */
import type { Graph } from '../../../onnx/graph/graph.js';

/** How the sizes are wrong. */
export interface SizeHint {
  /** A quantity that grows with the sizes, divided by what it must be. 0 means too small by an unknown factor, Infinity too large. */
  readonly ratio?: number;
  /** The channels that the first operator needs, and those that it got. */
  readonly channels?: { readonly needed: number; readonly got: number };
}

/** The operator, the name of the node, and its complaint. */
const FAILURE = /running (\S+) node\. Name:'(.*?)' Status Message: ([^]*)$/;
/** The place in ONNX Runtime's source that precedes some messages. */
const PLACE = /^\/?\S+\.(?:h|cc):\d+ .*? was false\. |^\/?\S+\.(?:h|cc):\d+ (?:\w+ )?(?=[A-Z])/;

/** Shortens a message to the node and its complaint, without the place in ONNX Runtime's source. */
export function shortenFailure(reason: string): string {
  const [, op, name, text] = FAILURE.exec(reason) ?? [];
  if (text === undefined) return reason;
  return `${op} "${name}": ${text.trim().replace(PLACE, '')}`;
}

/** Reads a message. `graph` shows which side of a mismatch is a constant. */
export function readFailure(reason: string, graph: Graph): SizeHint {
  const [, , name, text = reason] = FAILURE.exec(reason) ?? [];
  const numbers = (pattern: RegExp): number[] | undefined => pattern.exec(text)?.slice(1).map(Number);
  const channels = numbers(/C: (\d+) kernel channels: (\d+) group: (\d+)/);
  if (channels) return { channels: { got: channels[0]!, needed: channels[1]! * channels[2]! } };
  const reshape = /Input shape:\{([\d,]*)\}, requested shape:\{([-\d,]*)\}/.exec(text);
  if (reshape) return ratioOf(reshapeSizes(listOf(reshape[1]!), listOf(reshape[2]!)));
  const gemm = numbers(/W: \{(\d+),(\d+)\} K: (\d+) N:(\d+)/);
  if (gemm) {
    const [rows, columns, got, outputs] = gemm as [number, number, number, number];
    return ratioOf([got, columns === outputs ? rows : columns]);
  }
  const broadcast = numbers(/dimension other than 1\. (\d+) by (\d+)/);
  if (broadcast) {
    const node = graph.nodes.find((one) => one.name === name);
    const fixed = new Set(node?.inputs.flatMap((value) => value?.initializer?.dims ?? []));
    const needed = broadcast.filter((size) => fixed.has(size));
    return needed.length === 1 ? ratioOf([broadcast.find((size) => size !== needed[0])!, needed[0]!]) : {};
  }
  const squeezed = numbers(/must be 1 instead of (\d+)/);
  if (squeezed) return ratioOf([squeezed[0]!, 1]);
  if (/Invalid input shape|dimension is negative|Computed output size/.test(text)) return { ratio: 0 };
  return /allocate memory|bad_alloc/.test(text) ? { ratio: Infinity } : {};
}

function listOf(text: string): number[] {
  return text.split(',').filter(Boolean).map(Number);
}

/** The elements that a Reshape got, and those that it needs; per row if the rows are open. */
function reshapeSizes(dims: readonly number[], target: readonly number[]): [got: number, needed: number] {
  const product = (list: readonly number[]): number => list.reduce((total, size) => total * size, 1);
  const known = product(target.map((size, axis) => (size === 0 ? (dims[axis] ?? 1) : Math.abs(size))));
  if (!target.includes(-1)) return [product(dims), known];
  return target[0] === -1 ? [product(dims.slice(1)), known] : [product(dims), known];
}

function ratioOf([got, needed]: readonly number[]): SizeHint {
  return got! > 0 && needed! > 0 && got !== needed ? { ratio: got! / needed! } : {};
}
