/**
 * Layers of Keras models as tf2onnx writes them. Tensor names have TensorFlow's scopes: `resnet50/conv5_block3_out/Relu:0` (Keras 2) or
 * `resnet50_1/conv5_block3_out_1/Relu:0` (Keras 3, which numbers every scope).
 */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node } from '../graph.js';
import { nodeRoles } from '../roles.js';

/** What a layer's name denotes. */
export type LayerReading =
  | { readonly kind: 'node'; readonly node: Node; readonly why: string }
  | { readonly kind: 'folded'; readonly why: string; readonly instead?: string };

/** What is under the name of a layer. */
interface Inside {
  readonly nodes: Node[];
  /** Folded convolutions, with their scopes. */
  readonly folded: (readonly [string, Node])[];
}

interface Layers {
  /** Nodes that carry data, with their scope (without the model's), in execution order. */
  readonly scopes: ReadonlyMap<Node, string>;
  /** Nodes on data that the exporter added and that belong to no layer. */
  readonly helpers: ReadonlySet<Node>;
  /** Nodes that compute sizes and constants. */
  readonly aside: ReadonlySet<Node>;
  /** Whether scopes carry the number of the call after every layer's name. */
  readonly isNumbered: boolean;
  /** The scope of a convolution's own name, where its value is another layer's: the BatchNorm that was folded into it. */
  readonly folded: ReadonlyMap<string, Node>;
  readonly foldedNodes: ReadonlySet<Node>;
  /** Nodes and folded convolutions by the names of the layers that they are in. */
  readonly inside: ReadonlyMap<string, Inside>;
  /** Names that were read. */
  readonly readings: Map<string, LayerReading | undefined>;
}

/** No real network nests layers deeper than this. */
const MAX_DEPTH = 64;

const layersOf = oncePer(findLayers);

function findLayers(graph: Graph): Layers | undefined {
  if (!graph.model.producer.startsWith('tf2onnx')) return undefined;
  const roles = nodeRoles(graph);
  const data = graph.nodes.filter((node) => roles.get(node) === 'data');
  const full = new Map(
    data.flatMap((node): [Node, string][] => {
      const scope = scopeOf(graph, node);
      return scope === undefined ? [] : [[node, scope]];
    }),
  );
  const root = commonRoot([...full.values()]);
  const scopes = new Map([...full].map(([node, scope]) => [node, scope.slice(root.length)]));
  // Operations between layers have the scope of the model.
  const names = [...scopes.values()].flatMap((scope) => scope.split('/')[0] || []);
  const isNumbered = names.every((name) => /_\d+$/.test(name)) && names.some((name) => name.endsWith('_1'));
  const folded = new Map<string, Node>();
  for (const [node, scope] of scopes) {
    const own = convolutionScope(node)?.slice(root.length);
    if (own !== undefined && scope !== own && !scope.startsWith(`${own}/`)) folded.set(own, node);
  }
  const helpers = new Set(data.filter((node) => !scopes.has(node)));
  const aside = new Set(graph.nodes.filter((node) => roles.get(node) !== 'data'));
  const inside = new Map<string, Inside>();
  const around = (scope: string): Inside[] =>
    namesAround(layerName(scope, isNumbered)).map((name) => {
      let layer = inside.get(name);
      if (!layer) inside.set(name, (layer = { nodes: [], folded: [] }));
      return layer;
    });
  for (const [node, scope] of scopes) for (const layer of around(scope)) layer.nodes.push(node);
  for (const entry of folded) for (const layer of around(entry[0])) layer.folded.push(entry);
  const foldedNodes = new Set(folded.values());
  return { scopes, helpers, aside, isNumbered, folded, foldedNodes, inside, readings: new Map() };
}

/** `a/b/c` → `a`, `a/b`, `a/b/c`. */
function namesAround(name: string): string[] {
  const names: string[] = [];
  for (let end = name.indexOf('/'); end >= 0 && names.length < MAX_DEPTH; end = name.indexOf('/', end + 1))
    names.push(name.slice(0, end));
  return [...names, name];
}

/** The names in {@link Layers.inside} under which a path may be: each layer around the last may have its number. */
function spellingsOf(path: string, isNumbered: boolean): string[] {
  if (!isNumbered) return [path];
  const atoms = path.split('/', MAX_DEPTH);
  let spellings = [''];
  for (const [i, atom] of atoms.entries()) {
    const isLast = i === atoms.length - 1;
    const plain = atom.replace(/_\d+$/, '');
    const forms = isLast || plain === atom || spellings.length > 8 ? [isLast ? atom : plain] : [atom, plain];
    spellings = spellings.flatMap((start) => forms.map((form) => (i === 0 ? form : `${start}/${form}`)));
  }
  return spellings;
}

/** `resnet50/conv1_relu` of the tensor `resnet50/conv1_relu/Relu:0`; undefined for the exporter's own helpers. */
function scopeOf(graph: Graph, node: Node): string | undefined {
  const [value] = node.outputs;
  // The tensor of a graph output is renamed; its node keeps its name.
  const name = value && graph.isOutput(value) ? node.name : (value?.name ?? '').replace(/:\d+$/, '');
  if (/__\d+$/.test(name)) {
    if (node.opType === 'Squeeze' && name.includes('/')) return name.slice(0, name.lastIndexOf('/'));
    return node.opType === 'Conv' ? scopeOfBias(node) : undefined;
  }
  return name.includes('/') ? name.slice(0, name.lastIndexOf('/')) : undefined;
}

/** A convolution that was put together again is known by its bias: that of the BatchNorm in it, or its own. */
function scopeOfBias(node: Node): string | undefined {
  const bias = node.inputs[2]?.name ?? '';
  const match = /^(.+?)\/(?:batchnorm\/)?[^/]+$/.exec(bias);
  return match?.[1];
}

/** The scope that a convolution's node or weight is named after. */
function convolutionScope(node: Node): string | undefined {
  if (node.opType !== 'Conv' && node.opType !== 'ConvTranspose') return undefined;
  const name = /__\d+$/.test(node.name) ? (node.inputs[1]?.name ?? '') : node.name;
  const match = /^(.+?)\/(?:Conv2D|BiasAdd|convolution|depthwise|separable_conv2d)(?:\/.*|_.*)?$/.exec(name);
  return match?.[1];
}

/** The leading scopes that all nodes share: `StatefulPartitionedCall/resnet50/`. */
function commonRoot(scopes: readonly string[]): string {
  const all = scopes.map((scope) => `${scope}/`);
  for (let root = ''; ;) {
    const first = all
      .find((scope) => scope.length > root.length)
      ?.slice(root.length)
      .split('/')[0];
    const next = `${root}${first ?? ''}/`;
    const isShared = first !== undefined && all.every((scope) => scope.startsWith(next));
    if (!isShared || all.every((scope) => scope === next)) return root;
    root = next;
  }
}

/** Reads the name of a layer, or of layers inside a layer (`inner/conv`). Undefined if the model has none of that name. */
export function readLayer(graph: Graph, path: string): LayerReading | undefined {
  const layers = layersOf(graph);
  if (!layers || path === '') return undefined;
  const { readings } = layers;
  if (!readings.has(path)) {
    const reading = findLayer(graph, layers, path);
    // Only names of layers: there is no end of others.
    if (!reading) return undefined;
    readings.set(path, reading);
  }
  return readings.get(path);
}

function findLayer(graph: Graph, layers: Layers, path: string): LayerReading | undefined {
  const { isNumbered, inside, scopes } = layers;
  const matches = matcher(path, isNumbered);
  const found = spellingsOf(path, isNumbered).flatMap((name) => inside.get(name) ?? []);
  const entries = found.flatMap((layer) => layer.folded);
  const folded = readFolded(layers, entries, matches);
  if (folded) return folded;
  const nodes = new Set(found.flatMap((layer) => layer.nodes).filter((node) => matches(scopes.get(node)!)));
  if (nodes.size === 0) return undefined;
  // Its value is what other layers read; a layer that runs several times has one for each.
  const seen = new Set<Node>();
  const ordered = [...nodes].sort((a, b) => a.index - b.index);
  const node = ordered.find((one) => isReadOutside(graph, layers, nodes, one, seen)) ?? ordered.at(-1)!;
  return { kind: 'node', node, why: `layer "${path}"; maps are [N, C, H, W] inside the file` };
}

/** Whether what a node computes reaches another layer or an output, through the exporter's helpers or at once. */
function isReadOutside(
  { isOutput }: Graph,
  { helpers, aside }: Layers,
  nodes: ReadonlySet<Node>,
  from: Node,
  seen: Set<Node>,
): boolean {
  const stack = [from];
  for (let node = stack.pop(); node; node = stack.pop()) {
    for (const value of node.outputs) {
      if (!value) continue;
      if (isOutput(value)) return true;
      for (const user of value.uses) {
        if (nodes.has(user) || aside.has(user) || seen.has(user)) continue;
        seen.add(user);
        if (helpers.has(user)) stack.push(user);
        else return true;
      }
    }
  }
  return false;
}

function readFolded(
  { scopes, isNumbered }: Layers,
  folded: readonly (readonly [string, Node])[],
  matches: (scope: string) => boolean,
): LayerReading | undefined {
  // A convolution inside the layer holds the value of a BatchNorm outside it.
  const found = folded.find(([scope, node]) => matches(scope) && !matches(scopes.get(node)!));
  if (!found) return undefined;
  const instead = layerName(scopes.get(found[1])!, isNumbered);
  const why = `the exporter folded BatchNorm into the convolution "${layerName(found[0], isNumbered)}", and its value before that is not in the file`;
  return { kind: 'folded', why, instead };
}

/** Tests scopes for being a layer's, or below it. */
function matcher(path: string, isNumbered: boolean): (scope: string) => boolean {
  if (!isNumbered) return (scope) => scope === path || scope.startsWith(`${path}/`);
  const text = path.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`).replaceAll('/', String.raw`(?:_\d+)?/`);
  const pattern = new RegExp(String.raw`^${text}_\d+(?:/|$)`);
  return (scope) => pattern.test(scope);
}

function layerName(scope: string, isNumbered: boolean): string {
  return isNumbered ? scope.replace(/_\d+(?=\/|$)/g, '') : scope;
}

/** The names of layers, with the node that each one's scope belongs to, in execution order. */
export function layerNames(graph: Graph): ReadonlyMap<Node, string> {
  const layers = layersOf(graph);
  if (!layers) return new Map();
  return new Map([...layers.scopes].map(([node, scope]) => [node, layerName(scope, layers.isNumbered)]));
}

/** Convolutions that hold the value of the BatchNorm after them. */
export function foldedConvolutions(graph: Graph): ReadonlySet<Node> {
  return layersOf(graph)?.foldedNodes ?? new Set();
}
