/**
 * Where in the source network a node comes from. What the exporter left tells: TorchScript's node names (`/layer4/layer4.2/relu_2/Relu`) or
 * the dynamo exporter's metadata (`pkg.torch.onnx.name_scopes`).
 */
import type { Node, Value } from './graph.js';

/** Which exporter's naming a node follows. */
export type NameScheme = 'torchscript' | 'dynamo';

/** The place of a node in the module tree. */
export interface Place {
  readonly scheme: NameScheme;
  /** Dotted path of the module that ran the node; "" is the model itself. TorchScript marks repeated calls by `_1`. */
  readonly path: string;
  /** The paths of the modules that were running. A list of modules never runs; a child may be called without the module around it. */
  readonly scopes: readonly string[];
  /** The operation inside the module: one torch call may have become several nodes of the same operation. */
  readonly operation: string;
  /** Whether the module is one of torch.nn's, which torchvision takes as a whole. */
  readonly isLayer: boolean;
  /** Whether it was found by the parameters of a convolution that holds the value of the norm after it. */
  readonly isFolded?: boolean;
}

/** No real network nests modules deeper than this. */
export const MAX_DEPTH = 64;

/** The place of a node, or undefined where its file carries none. Of fused operators, it is the place of the last. */
export function placeOf(node: Node): Place | undefined {
  const scopes = node.scanned.metadata.get('pkg.torch.onnx.name_scopes');
  return checkDepth(scopes === undefined ? placeInName(nameOf(node)) : placeInScopes(scopes, isLayer(node)));
}

/** The place of the first of fused operators, where the node's own name tells another than its tensor. */
export function firstPlaceOf(node: Node): Place | undefined {
  const { name } = node;
  // ONNX Runtime calls a Gemm with an activation in it "fused" and its name.
  return nameOf(node) === name ? undefined : checkDepth(placeInName(name.replace(/^fused /, '')));
}

function checkDepth(place: Place | undefined): Place | undefined {
  return place && place.path.split('.', MAX_DEPTH + 1).length <= MAX_DEPTH ? place : undefined;
}

/**
 * TorchScript: `/` + scopes + `/` + operator. A scope that repeats the one before it plus "." (children of a
 * Sequential: `/layer1/layer1.0`) continues its last atom, any other scope is one level deeper.
 */
function placeInName(name: string): Place | undefined {
  if (!name.startsWith('/')) return undefined;
  const segments = name.slice(1).split('/');
  const operation = segments.pop() ?? '';
  if (!/^[A-Z]\w*$/.test(operation) || segments.includes('')) return undefined;
  const scopes: string[] = [];
  let path = '';
  let before: string | undefined;
  for (const segment of segments) {
    if (before !== undefined && segment.startsWith(`${before}.`)) path += segment.slice(before.length);
    else path = joinPath(path, segment);
    scopes.push(path);
    before = segment;
  }
  return { scheme: 'torchscript', path, scopes, operation, isLayer: false };
}

/**
 * TorchScript names a node after its place, and its tensors after the node. Optimisers that fuse operators keep the name of the
 * first node and the tensor of the last, whose value it is. Only outputs of the graph have tensors of other names.
 */
function nameOf(node: Node): string {
  const fromTensor = nameInTensor(node.outputs[0]?.name ?? '');
  return fromTensor ?? (node.domain === 'com.microsoft' ? '' : node.name);
}

/** The name of the node after which TorchScript named a tensor: `/relu/Relu` for `/relu/Relu_output_0`. */
export function nameInTensor(tensor: string): string | undefined {
  return /^(\/.+)_output_\d+$/s.exec(tensor)?.[1];
}

/** The place that TorchScript gave to a tensor. */
export function placeOfTensor({ name }: Pick<Value, 'name'>): Place | undefined {
  return checkDepth(placeInName(nameInTensor(name) ?? ''));
}

/** Dynamo: a Python list of full paths, first "" for the model, last the name of the FX node. */
function placeInScopes(scopes: string, isInLayer: boolean): Place | undefined {
  const items = parsePythonStrings(scopes);
  if (items === undefined || items.length === 0) return undefined;
  return {
    scheme: 'dynamo',
    path: items.length > 1 ? items[items.length - 2]! : '',
    scopes: items.slice(0, -1),
    operation: items.at(-1)!,
    isLayer: isInLayer,
  };
}

/** The class hierarchy of a node ends with the class of its module, then the torch operation. */
function isLayer(node: Node): boolean {
  return classesOf(node).at(-2)?.startsWith('torch.nn.modules.') === true;
}

/** The classes of the modules that were running, the model's first, then the torch operation; empty if the file does not state them. */
export function classesOf({ scanned }: Node): readonly string[] {
  return parsePythonStrings(scanned.metadata.get('pkg.torch.onnx.class_hierarchy') ?? '') ?? [];
}

/** Reads the repr of a list of strings without evaluating it; undefined if it is anything else. */
export function parsePythonStrings(text: string): string[] | undefined {
  if (!/^\s*\[.*\]\s*$/s.test(text)) return undefined;
  const items: string[] = [];
  const item = /\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*(,|\])/sy;
  item.lastIndex = text.indexOf('[') + 1;
  for (;;) {
    const match = item.exec(text);
    if (!match) return /^\s*\[\s*\]\s*$/.test(text) ? [] : undefined;
    items.push((match[1] ?? match[2] ?? '').replace(/\\(.)/gs, '$1'));
    if (match[3] === ']') return items;
  }
}

/** The last atom of a path and what comes before it: `layer4.2.relu` → `["layer4.2", "relu"]`. */
export function splitPath(path: string): [parent: string, atom: string] {
  const dot = path.lastIndexOf('.');
  return dot < 0 ? ['', path] : [path.slice(0, dot), path.slice(dot + 1)];
}

/** Whether a path is another one or below it. Everything is below the model itself, "". */
export function isUnder(path: string, above: string): boolean {
  return above === '' || path === above || (path.startsWith(above) && path[above.length] === '.');
}

/** Joins a parent path and an atom. */
export function joinPath(parent: string, atom: string): string {
  return parent === '' ? atom : `${parent}.${atom}`;
}
