/** The names of a model, with what is known about their values before the model runs. A session tells types that the file does not state. */
import { reasonOf } from '../../../base/errors.js';
import type { Graph, Value } from '../../../onnx/graph/graph.js';
import { marksOf, type Mark } from '../../../onnx/graph/names/marks.js';
import { nameValues } from '../../../onnx/graph/names/name-list.js';
import { readModulePath } from '../../../onnx/graph/names/module-names.js';
import { moduleTree } from '../../../onnx/graph/names/module-tree.js';
import { resolveNames } from '../../../onnx/graph/names/resolve-names.js';
import { meansNumbers } from '../../../onnx/graph/names/resolve-tensors.js';
import { describeTensor, type FeatureInfo } from '../prune/feature-info.js';
import { modelInternals } from '../open/model-state.js';
import { readModel, type ModelSource, type OnnxModel } from '../open/open-model.js';
import { checkNames } from '../open/return-nodes.js';
import { describeValue } from '../open/value-info.js';
import { describeValues } from './infer-types.js';
import { SessionHolder } from './session-holder.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';

/** A value and a name for it. */
type NamedValue = readonly [value: Value, name: string];

/**
 * Describes values by name without running the model: dtype, dims and layout, and the channels and reduction of timm's feature
 * info. Asks ONNX Runtime for types that the file does not state.
 *
 * @param model - A model, or where to open one.
 * @param names - Names as for {@link createFeatureExtractor}; by default all of {@link getGraphNodeNames}.
 * @returns One entry per name, in that order.
 * @throws {@link TapirError} those of name resolution and of {@link openModel}; `SESSION_FAILED` if ONNX Runtime refuses the model.
 *
 * @example The stages of a ResNet-50, as a feature pyramid needs them.
 * ```ts
 * import { describeFeatures } from 'onnx-tapir';
 *
 * const stages = await describeFeatures('resnet50.onnx', ['layer1', 'layer2', 'layer3', 'layer4']);
 * console.log(stages.map(({ channels, reduction }) => [channels, reduction])); // [[256, 4], [512, 8], [1024, 16], [2048, 32]]
 * ```
 */
export async function describeFeatures(
  model: OnnxModel | ModelSource,
  names?: readonly string[],
): Promise<FeatureInfo[]> {
  const opened = readModel(model);
  const { graph } = modelInternals.of(opened);
  const named: NamedValue[] = names
    ? resolveNames(graph, checkNames('names', names)).map(({ request, value }) => [value, request])
    : [...nameValues(graph)];
  const describe = await describeNamed(opened, named);
  return named.map(([value, name]) =>
    describeTensor(opened, name, value, numbersOf(graph, name, describe(value))),
  );
}

/** A line of a listing. */
export interface ListedFeature extends FeatureInfo {
  /** The ONNX operator, `input`, or "" for a module. */
  readonly op: string;
  /** How many listed modules contain it. */
  readonly depth: number;
  /** Whether it is a module that contains others; its value is that of its last node. */
  readonly isModule: boolean;
  readonly marks: readonly Mark[];
}

/** Names as a tree: each module stands before its content. */
export interface FeatureTree {
  readonly features: readonly ListedFeature[];
  /** Why some types are missing; `undefined` if all are known. */
  readonly problem: string | undefined;
}

/** Lists the names of a model as a tree. `all` adds constants and sizes, under the names of their tensors. */
export async function listFeatureTree(model: OnnxModel, all: boolean): Promise<FeatureTree> {
  const { graph } = modelInternals.of(model);
  const named = all ? withUnnamed(graph) : [...nameValues(graph)];
  let describe: (value: Value) => TensorInfo = describeValue;
  let problem: string | undefined;
  try {
    describe = await describeNamed(model, named);
  } catch (error) {
    problem = reasonOf(error);
  }
  const features: ListedFeature[] = [];
  const listed = new Set<string>();
  const valueOfModule = moduleReader(graph);
  for (const [value, name] of named) {
    const place = value.producer && moduleTree(graph).places.get(value.producer);
    // The name of a node may lack the module that the node is in.
    const path = name.includes('.') || !place ? name : `${place.path}.${name}`;
    const above = modulesAbove(path).filter((module) => valueOfModule(module) !== undefined);
    above.forEach((module, depth) => {
      if (listed.has(module)) return;
      listed.add(module);
      const last = valueOfModule(module)!;
      const info = describeTensor(model, module, last, numbersOf(graph, module, describe(last)));
      features.push({ ...info, op: '', depth, isModule: true, marks: [] });
    });
    const { producer } = value;
    features.push({
      ...describeTensor(model, name, value, numbersOf(graph, name, describe(value))),
      op: producer ? opOf(producer) : 'input',
      depth: above.length,
      isModule: false,
      marks: producer ? marksOf(graph, producer) : [],
    });
  }
  return { features, problem };
}

/** The type of what a name gives: of whole numbers that stand for others, those. */
function numbersOf(graph: Graph, name: string, info: TensorInfo): TensorInfo {
  return meansNumbers(graph, name) ? { ...info, dtype: 'float32' } : info;
}

/** `layer1.0.conv1` → `layer1`, `layer1.0`. */
function modulesAbove(name: string): string[] {
  const atoms = name.split('.');
  return atoms.slice(1).map((_, i) => atoms.slice(0, i + 1).join('.'));
}

/** Looks up the value that a module path denotes, each path once. */
function moduleReader(graph: Graph): (path: string) => Value | undefined {
  const values = new Map<string, Value | undefined>();
  return (path) => {
    if (!values.has(path)) {
      const found = readModulePath(graph, path, false);
      values.set(path, found?.kind === 'value' ? found.value : undefined);
    }
    return values.get(path);
  };
}

/** All inputs and computed values. Those that depend on no input have no name but that of their tensor. */
function withUnnamed(graph: Graph): NamedValue[] {
  const names = nameValues(graph);
  const computed = graph.nodes.flatMap((node) => node.outputs.filter((value) => value !== undefined));
  return [
    ...[...names].filter(([value]) => !value.producer),
    ...computed.map((value): NamedValue => [value, names.get(value) ?? `tensor:${value.name}`]),
  ];
}

function opOf({ opType, domain }: { readonly opType: string; readonly domain: string }): string {
  return domain === '' ? opType : `${domain}.${opType}`;
}

async function describeNamed(
  model: OnnxModel,
  named: readonly NamedValue[],
): Promise<(value: Value) => TensorInfo> {
  const values = named.map(([value]) => value);
  await using sessions = new SessionHolder(model);
  return await describeValues(values, undefined, sessions);
}
