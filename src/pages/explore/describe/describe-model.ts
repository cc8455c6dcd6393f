/** A model → what the page shows of it, known without running it. */
import { shown } from '../../../base/printable.js';
import { basename } from 'node:path';
import type { Graph, Node, Value } from '../../../graph/graph.js';
import { marksOf } from '../../../graph/names/marks.js';
import { readModulePath } from '../../../graph/names/module-names.js';
import { moduleTree } from '../../../graph/names/module-tree.js';
import { nameValues } from '../../../graph/names/name-list.js';
import { contentsOf } from '../../../graph/scopes.js';
import { nodeRoles } from '../../../graph/roles.js';
import { modelInternals } from '../../../model/open/model-state.js';
import { bytesOf, countElements, weighTensors } from '../../../model/oracle/model-costs.js';
import type { OnnxModel } from '../../../model/open/open-model.js';
import { describeValue } from '../../../model/open/value-info.js';
import type { PageBox, PageModel, PageNode, PageRefusal, PageTensor } from '../page/data.js';
import { buildTree } from './box-tree.js';
import { containersOf } from './containers.js';
import { exporterFacts } from './exporter-facts.js';
import type { Box, TreeNode } from './group-runs.js';

/**
 * Describes a model. Takes milliseconds; no session opens.
 *
 * @param path - The file as commands and code name it.
 */
export function describeModel(model: OnnxModel, path: string): PageModel {
  const { graph } = modelInternals.of(model);
  const weights = [...graph.values.values()].filter(({ initializer }) => initializer !== undefined);
  const names = nameValues(graph);
  const inside = graph.nodes.filter((node) => contentsOf(graph, [node]).size > 0);
  const places = new Map<Value | Node, number>([...weights, ...inside].map((holder, i) => [holder, i]));
  const nodes = describeNodes(graph, names, places);
  const boxes = listBoxes(graph, buildTree(nodes.map(treeNode), containersOf(graph, names)));
  return {
    title: basename(path),
    path,
    sizeBytes: graph.model.sizeBytes,
    inputs: graph.inputs.map((value) => describeTensor(value, value.name)),
    outputs: graph.outputs.map(placeOf).filter((place) => place !== undefined),
    nodes,
    weights: [
      ...weights.map((value): [number, number] => [
        countElements(graph, [value]).parameters,
        bytesOf(value.initializer!),
      ]),
      ...inside.map((node): [number, number] => [0, weighTensors(graph, [], [node]).weightBytes]),
    ],
    boxes,
    ...listOtherNames(graph, new Set([...nodes, ...boxes].map(({ name }) => name))),
    facts: exporterFacts(graph, nodes),
  };
}

/** The node and the output that a value is. */
function placeOf(value: Value): [number, number] | undefined {
  return value.producer && [value.producer.index, value.producer.outputs.indexOf(value)];
}

function describeNodes(
  graph: Graph,
  names: ReadonlyMap<Value, string>,
  weights: ReadonlyMap<Value | Node, number>,
): PageNode[] {
  const roles = nodeRoles(graph);
  const inputs = new Map(graph.inputs.map((value, i) => [value, i]));
  return graph.nodes.map((node) => {
    const outputs = node.outputs.flatMap((value) => (value ? [value] : []));
    const named = outputs.find((value) => names.has(value));
    return {
      name: shown(named ? names.get(named)! : (outputs[0]?.name ?? node.name)),
      op: shown(node.domain === '' ? node.opType : `${node.domain}.${node.opType}`),
      role: roles.get(node) ?? 'constant',
      marks: marksOf(graph, node),
      outputs: node.outputs.map((value) =>
        value
          ? describeTensor(value, names.get(value) ?? `tensor:${value.name}`)
          : { tensor: '', request: '', dtype: null, dims: null },
      ),
      reads: readsOf(node, inputs),
      weights: [...node.reads, node].flatMap((holder) => weights.get(holder) ?? []),
    };
  });
}

function describeTensor(value: Value, request: string): PageTensor {
  const { dtype, dims } = describeValue(value);
  return { tensor: value.name, request, dtype, dims };
}

function readsOf(node: Node, inputs: ReadonlyMap<Value, number>): [number, number][] {
  return node.reads.flatMap((value): [number, number][] => {
    const place = placeOf(value);
    const input = inputs.get(value);
    return place ? [place] : input === undefined ? [] : [[-1 - input, 0]];
  });
}

function treeNode({ name, op, role, reads }: PageNode): TreeNode {
  return {
    name,
    op,
    isData: role === 'data',
    reads: reads.flatMap(([source]) => (source < 0 ? [] : source)),
  };
}

/** The boxes as a list, each before those in it. */
function listBoxes(graph: Graph, root: Box): PageBox[] {
  const order: Box[] = [];
  const places = new Map<Box, number>();
  const open = [root];
  for (let box = open.pop(); box; box = open.pop()) {
    places.set(box, order.length);
    order.push(box);
    for (const child of box.children.toReversed()) if (typeof child !== 'number') open.push(child);
  }
  return order.map((box) => {
    const children = box.children.map((child) =>
      typeof child === 'number' ? child : -1 - places.get(child)!,
    );
    return Object.assign(
      { kind: box.kind, name: shown(box.name), about: box.about, children },
      valueOfBox(graph, box),
    );
  });
}

function valueOfBox(graph: Graph, { kind, name }: Box): Pick<PageBox, 'value' | 'refusal'> {
  if (kind === 'run' || name === '') return { value: null, refusal: null };
  const reading = readModulePath(graph, name, false);
  if (reading?.kind === 'value') return { value: placeOf(reading.value) ?? null, refusal: null };
  return { value: null, refusal: reading && 'why' in reading ? reading.why : null };
}

/** Modules whose value is not in the file, and those whose value is that of a node of another name. */
function listOtherNames(
  graph: Graph,
  shownNames: ReadonlySet<string>,
): Pick<PageModel, 'refusals' | 'aliases'> {
  const tree = moduleTree(graph);
  const refusals: PageRefusal[] = [];
  const aliases: [string, number][] = [];
  for (const path of [...tree.modules.keys(), ...tree.takenBy.keys()]) {
    const reading = readModulePath(graph, path, false);
    const name = shown(path);
    if (reading?.kind === 'folded' || reading?.kind === 'unsure') {
      const instead = reading.kind === 'folded' ? (reading.instead ?? null) : null;
      refusals.push({ name, why: shown(reading.why), instead });
    } else if (!shownNames.has(name)) {
      // What torchvision renumbers is asked for by its true name.
      const isUnclear = reading?.kind === 'clash';
      const own = isUnclear ? readModulePath(graph, path, true) : reading;
      const value = own?.kind === 'value' ? own.value : undefined;
      const node = value?.producer;
      if (node && node.outputs[0] === value) aliases.push([isUnclear ? `module:${name}` : name, node.index]);
    }
  }
  return { refusals, aliases };
}
