/** Checks of a graph that onnxruntime has saved, before it is used: onnxruntime cannot open everything that it saves. */
import { listExternalInitializers, listExternalInNodes } from '../../onnx/external-data.js';
import { ELEMENT_TYPE } from '../../onnx/wire/schema.js';
import { scanModel } from '../../onnx/scan/scan.js';
import type { ScannedTensor } from '../../onnx/scan/scan-value.js';
import { memorySource } from '../../onnx/wire/source.js';

/** Operators whose packed matrices are one block of floats. */
const PACKED_OPS: ReadonlySet<string> = new Set(['MatMul', 'FusedMatMul', 'Gemm', 'FusedGemm']);
/** The alignment of onnxruntime's allocator; its kernels load packed matrices in whole vector registers. */
const ALIGNMENT = 64;

/**
 * Whether the packed matrices of a saved graph can be mapped: onnxruntime 1.30 writes them after the weights wherever those end,
 * and crashes (SIGSEGV in Gemm) on one that is not aligned. Those of other operators than products of floats are not trusted.
 */
export function arePacksSafe(graph: Uint8Array): boolean {
  const { initializers, nodes } = scanModel(memorySource(graph)).graph;
  return [...listExternalInitializers(initializers), ...listExternalInNodes(nodes)].every(({ tensor }) =>
    packsOf(tensor).every((pack) => tensor.elemType === ELEMENT_TYPE.float32 && isSafe(pack)),
  );
}

/** Entries as `Gemm+6959216030870521856|130608;8192;0`: operator, hash, and offset, length, checksum of each block. */
function packsOf({ external }: ScannedTensor): string[] {
  return [...(external ?? [])].flatMap(([key, value]) => (key.startsWith('prepacked') ? [value] : []));
}

function isSafe(pack: string): boolean {
  const [key = '', ...blocks] = pack.split('|');
  const numbers = blocks.join(';').split(';');
  if (!PACKED_OPS.has(key.split('+')[0]!) || numbers.length !== 3) return false;
  return Number.isSafeInteger(Number(numbers[0])) && Number(numbers[0]) % ALIGNMENT === 0;
}

/**
 * Why a graph that was prepared on the CPU must not run on a GPU: the CPU computes in float32 where it has no float16, through Cast
 * nodes, which a GPU would run as well.
 *
 * @param casts - Cast nodes of the graph that was prepared.
 */
export function whyNotOnGpu(graph: Uint8Array, casts: number): string | undefined {
  const { nodes } = scanModel(memorySource(graph)).graph;
  const now = nodes.filter(({ opType }) => opType === 'Cast').length;
  return now > casts ? 'its float16 parts would run in float32' : undefined;
}
