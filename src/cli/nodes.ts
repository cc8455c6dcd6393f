/** `tapir nodes`: the names of a model, with operator, shape and place. */
import { reasonOf } from '../errors.js';
import { createFeatureExtractor } from '../extract/feature-extractor.js';
import type { FeatureInfo } from '../extract/feature-info.js';
import { openModel, type OnnxModel } from '../extract/open-model.js';
import { formatDims, formatTable } from './table.js';
import type { Terminal } from './terminal.js';

export interface NodesFlags {
  readonly depth?: number;
  readonly json: boolean;
}

interface Listed {
  readonly name: string;
  readonly op: string;
  readonly tensor: string;
  readonly dtype: string | null;
  readonly dims: readonly (number | string | null)[] | null;
  readonly channels: number | null;
  readonly reduction: number | null;
}

/** Prints the names. */
export async function runNodes(terminal: Terminal, path: string, flags: NodesFlags): Promise<void> {
  const model = await openModel(path);
  const named = nodesByName(model);
  const names = flags.depth === undefined ? [...named.keys()] : atDepth([...named.keys()], flags.depth);
  const features = await describe(terminal, model, names);
  const listed = names.map((name): Listed => {
    const feature = features.get(name);
    const node = named.get(name);
    return {
      name,
      op: node?.op ?? '',
      tensor: feature?.tensor ?? node?.tensor ?? '',
      dtype: feature?.dtype ?? null,
      dims: feature?.dims ?? null,
      channels: feature?.channels ?? null,
      reduction: feature?.reduction ?? null,
    };
  });
  if (flags.json) {
    const { inputs, outputs, producer, irVersion } = model;
    terminal.out(`${JSON.stringify({ inputs, outputs, producer, irVersion, nodes: listed }, null, 2)}\n`);
    return;
  }
  const rows = listed.map((item) => [
    item.name,
    item.op,
    item.dtype ?? '?',
    formatDims(item.dims),
    item.reduction === null ? '' : `1/${item.reduction}`,
    item.tensor,
  ]);
  terminal.out(formatTable([['name', 'op', 'dtype', 'dims', 'scale', 'tensor'], ...rows]));
}

function nodesByName(model: OnnxModel): Map<string, { readonly op: string; readonly tensor: string }> {
  const named = new Map(model.inputs.map((input) => [input.name, { op: 'input', tensor: input.name }]));
  for (const node of model.nodes) {
    if (node.request !== null)
      named.set(node.request, { op: node.opType, tensor: node.outputs[0]?.name ?? '' });
  }
  return named;
}

/** Paths cut to a depth; a container stands where its last node is. */
function atDepth(names: readonly string[], depth: number): string[] {
  const cut = names.map((name) => name.split('.').slice(0, Math.max(1, depth)).join('.'));
  return cut.filter((name, i) => cut.lastIndexOf(name) === i);
}

/** Shapes as onnxruntime infers them; a model that it refuses is listed without. */
async function describe(
  terminal: Terminal,
  model: OnnxModel,
  names: readonly string[],
): Promise<Map<string, FeatureInfo>> {
  try {
    const session = { graphOptimizationLevel: 'disabled' } as const;
    const extractor = await createFeatureExtractor(model, [...names], { session });
    await extractor.close();
    return new Map(extractor.outputs.map((output) => [output.name, output]));
  } catch (error) {
    terminal.err(`tapir: shapes are unknown: ${reasonOf(error)}\n`);
    return new Map();
  }
}
