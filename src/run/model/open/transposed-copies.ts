/** Parameters that a file holds twice, the second time transposed; proven by their values. */
import { oncePer } from '../../../base/once-per.js';
import { findParameters, type GraphParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import {
  possibleCopies,
  withCopies,
  type TransposedCopy,
} from '../../../onnx/graph/parameters/transposed-copies.js';
import type { ModelState } from './model-state.js';
import { readInitializerBytes } from './read-initializer.js';

/** The pairs of a model. Values are not read. */
const pairsOf = oncePer(({ graph }: ModelState) => possibleCopies(findParameters(graph)));
/** Whether a pair of a model is proven. */
const isProven = oncePer((pair: TransposedCopy, model: ModelState) => isTransposed(model, pair));

/**
 * Finds the transposed copies of parameters. Values are read only where dims fit and the file names one of the two matrices; most files
 * have no such pair.
 *
 * @param isAsked - Of which parameters; by default of all.
 */
export async function findCopies(
  model: ModelState,
  isAsked: (parameter: string) => boolean = () => true,
): Promise<readonly TransposedCopy[]> {
  const found = new Map<TransposedCopy['copy'], TransposedCopy>();
  for (const pair of pairsOf(model))
    // oxlint-disable-next-line no-await-in-loop -- two matrices in memory at a time
    if (isAsked(pair.parameter) && !found.has(pair.copy) && (await isProven(pair, model)))
      found.set(pair.copy, pair);
  return [...found.values()];
}

/**
 * The parameters of a model in which copies are places that read their parameters. A layer that is tied to an embedding keeps its name.
 *
 * @param isOwn - Whether a guessed name is that of a parameter, so that what goes by it is left as it is.
 * @param isAsked - Of which parameters copies matter; by default of all.
 */
export async function parametersWithCopies(
  model: ModelState,
  isOwn: (guess: string) => boolean = () => false,
  isAsked?: (parameter: string) => boolean,
): Promise<{ readonly parameters: GraphParameters; readonly copies: readonly TransposedCopy[] }> {
  const copies = (await findCopies(model, isAsked)).filter(
    ({ guess, isTied }) => !isTied && !(guess !== undefined && isOwn(guess)),
  );
  return { parameters: withCopies(findParameters(model.graph), copies), copies };
}

/** Whether a matrix is the other one transposed, bit for bit. Symmetric matrices, such as zeros, may be equal by chance: they prove nothing. */
async function isTransposed(model: ModelState, { original, copy }: TransposedCopy): Promise<boolean> {
  const { dims } = original.initializer!;
  const [rows, columns] = [dims[0]!, dims[1]!];
  if (rows * columns < 2) return false;
  const ours = wordsOf(await readInitializerBytes(model, original.initializer!), rows * columns);
  const theirs = wordsOf(await readInitializerBytes(model, copy.initializer!), rows * columns);
  let isVaried = false;
  // Blocks that fit a cache: rows of one matrix are columns of the other.
  for (let top = 0; top < rows; top += BLOCK)
    for (let left = 0; left < columns; left += BLOCK)
      for (let row = top; row < Math.min(rows, top + BLOCK); row++)
        for (let column = left; column < Math.min(columns, left + BLOCK); column++) {
          const at = row * columns + column;
          if (ours[at] !== theirs[column * rows + row]) return false;
          isVaried ||= ours[at] !== (rows === columns ? theirs[at] : ours[0]);
        }
  return isVaried;
}

const BLOCK = 64;

/** The bits of elements. */
function wordsOf(bytes: Uint8Array, count: number): Uint16Array | Uint32Array | BigUint64Array | Uint8Array {
  const { buffer } =
    bytes.byteOffset === 0 && bytes.buffer.byteLength === bytes.byteLength ? bytes : bytes.slice();
  const size = bytes.byteLength / count;
  if (size === 2) return new Uint16Array(buffer);
  if (size === 4) return new Uint32Array(buffer);
  return size === 8 ? new BigUint64Array(buffer) : new Uint8Array(buffer);
}
