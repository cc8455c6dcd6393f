/** A model → what the page shows of it, known without running it. */
import { shown } from '../../../../base/printable.js';
import { basename } from 'node:path';
import type { OnnxModel } from '../../../../run/model/open/open-model.js';
import type { Graph, Node, Value } from '../../../../onnx/graph/graph.js';
import { marksOf } from '../../../../onnx/graph/names/marks.js';
import { readModulePath } from '../../../../onnx/graph/names/module-names.js';
import { moduleTree } from '../../../../onnx/graph/names/module-tree.js';
import { nameValues } from '../../../../onnx/graph/names/name-list.js';
import { initializersOf } from '../../../../onnx/graph/quantised-weights.js';
import { contentsOf } from '../../../../onnx/graph/scopes.js';
import { nodeRoles } from '../../../../onnx/graph/roles.js';
import { modelInternals } from '../../../../run/model/open/model-state.js';
import {
  bytesOf,
  countElements,
  parameterTypes,
  weighTensors,
} from '../../../../run/model/oracle/model-costs.js';
import { describeValue } from '../../../../run/model/open/value-info.js';
import type {
  StructureBox,
  ModelStructure,
  StructureNode,
  ValuePlace,
  RefusedName,
  StatedTensor,
} from './model-structure.js';
import { buildTree } from './box-tree.js';
import { containersOf } from './containers.js';
import { exporterFacts } from './exporter-facts.js';
import type { Box } from './group-runs.js';

/** The number of nodes, known without describing them. */
export function countNodes(model: OnnxModel): number {
  return modelInternals.of(model).graph.nodes.length;
}

/** Describes a model, whose file code names by `path`. Takes milliseconds; no session opens. */
export function describeModel(model: OnnxModel, path: string): ModelStructure {
  const { graph } = modelInternals.of(model);
  const weights = [...graph.values.values()].filter(({ initializer }) => initializer !== undefined);
  const names = nameValues(graph);
  const inside = graph.nodes.filter((node) => contentsOf(graph, [node]).size > 0);
  const places = new Map<Value | Node, number>([...weights, ...inside].map((holder, i) => [holder, i]));
  const placeOf = placeFinder(graph);
  const nodes = describeNodes(graph, names, places, placeOf);
  const values = listValues(graph);
  const tree = buildTree(nodes, containersOf(graph, names));
  const boxes = listBoxes(graph, tree, placeOf, values);
  return {
    title: basename(path),
    path,
    sizeBytes: graph.model.sizeBytes,
    inputs: graph.inputs.map((value) => describeTensor(value, value.name)),
    outputs: graph.outputs.map(placeOf).filter((place) => place !== undefined),
    nodes,
    values,
    parameterTypes: parameterTypes(graph),
    weights: [
      ...weights.map((value): [number, number] => [
        countElements(graph, [value]).parameters,
        bytesOf(value.initializer!),
      ]),
      ...inside.map((node): [number, number] => [0, weighTensors(graph, [], [node]).weightBytes]),
    ],
    boxes,
    ...listOtherNames(graph, placeOf, new Set([...nodes, ...boxes].map(({ name }) => name))),
    facts: exporterFacts(graph, nodes),
  };
}

type PlaceOf = (value: Value) => ValuePlace | undefined;

/** Finds the place of a value; undefined for a weight. */
function placeFinder(graph: Graph): PlaceOf {
  const inputs = new Map(graph.inputs.map((value, i) => [value, -1 - i]));
  return (value) => {
    const { producer } = value;
    if (producer) return [producer.index, producer.outputs.indexOf(value)];
    const input = inputs.get(value);
    return input === undefined ? undefined : [input, 0];
  };
}

/** The inputs, and the outputs of nodes after the first. */
function listValues(graph: Graph): ValuePlace[] {
  const further = graph.nodes.flatMap(({ index, outputs }) => {
    const first = outputs.findIndex((value) => value !== undefined);
    return outputs.flatMap((value, k): ValuePlace[] => (value && k > first ? [[index, k]] : []));
  });
  return [...graph.inputs.map((_, i): ValuePlace => [-1 - i, 0]), ...further];
}

function describeNodes(
  graph: Graph,
  names: ReadonlyMap<Value, string>,
  weights: ReadonlyMap<Value | Node, number>,
  placeOf: PlaceOf,
): StructureNode[] {
  const roles = nodeRoles(graph);
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
      reads: node.reads.map(placeOf).filter((place) => place !== undefined),
      weights: [...initializersOf(node), node].flatMap((holder) => weights.get(holder) ?? []),
    };
  });
}

function describeTensor(value: Value, request: string): StatedTensor {
  const { dtype, dims } = describeValue(value);
  return { tensor: value.name, request, dtype, dims };
}

/** Stands for all inputs: their places are negative. */
const INPUTS = -1;

/** The boxes as a list, each before those in it. The inputs come first, further outputs after their nodes. */
function listBoxes(
  graph: Graph,
  root: Box,
  placeOf: PlaceOf,
  values: ModelStructure['values'],
): StructureBox[] {
  const bySource = new Map<number, number[]>();
  values.forEach(([source], i) => {
    const id = graph.nodes.length + i;
    const holder = Math.max(source, INPUTS);
    bySource.set(holder, [...(bySource.get(holder) ?? []), id]);
  });
  const order: Box[] = [];
  const places = new Map<Box, number>();
  const open = [root];
  for (let box = open.pop(); box; box = open.pop()) {
    places.set(box, order.length);
    order.push(box);
    for (const child of box.children.toReversed()) if (typeof child !== 'number') open.push(child);
  }
  return order.map((box) => {
    const children = box.children.flatMap((child) =>
      typeof child === 'number' ? [child, ...(bySource.get(child) ?? [])] : -1 - places.get(child)!,
    );
    if (box === root) children.unshift(...(bySource.get(INPUTS) ?? []));
    return Object.assign(
      { kind: box.kind, name: shown(box.name), about: box.about, children },
      valueOfBox(graph, box, placeOf),
    );
  });
}

function valueOfBox(
  graph: Graph,
  { kind, name }: Box,
  placeOf: PlaceOf,
): Pick<StructureBox, 'value' | 'refusal'> {
  if (kind === 'run' || name === '') return { value: null, refusal: null };
  const reading = readModulePath(graph, name, false);
  if (reading?.kind === 'value') return { value: placeOf(reading.value) ?? null, refusal: null };
  return { value: null, refusal: reading && 'why' in reading ? reading.why : null };
}

/** Modules whose value is not in the file, and those whose value has another name. */
function listOtherNames(
  graph: Graph,
  placeOf: PlaceOf,
  shownNames: ReadonlySet<string>,
): Pick<ModelStructure, 'refusals' | 'aliases'> {
  const tree = moduleTree(graph);
  const refusals: RefusedName[] = [];
  const aliases: [string, ValuePlace][] = [];
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
      const place = value && placeOf(value);
      if (place) aliases.push([isUnclear ? `module:${name}` : name, place]);
    }
  }
  return { refusals, aliases };
}
