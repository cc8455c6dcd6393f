/** The names of a model with what is known of their values before anything runs. */
import { checkNames } from './return-nodes.js';
import { reasonOf } from '../base/errors.js';
import type { Value } from '../graph/graph.js';
import { marksOf, type Mark } from '../graph/names/marks.js';
import { nameValues } from '../graph/names/name-list.js';
import { moduleTree } from '../graph/names/module-tree.js';
import { readModulePath } from '../graph/names/module-names.js';
import { resolveNames } from '../graph/names/resolve-names.js';
import { describeOutput, describeTensor, type FeatureInfo } from './feature-info.js';
import { inferTypes, type InferredType } from './oracle/infer-types.js';
import { openModel, OnnxModel, stateOf, type ModelSource } from './open-model.js';
import { describeValue } from './value-info.js';

/**
 * Describes values by name without running the model: dtype, dims, and what timm calls feature info (channels,
 * reduction), with the layout. What the file does not state is asked of ONNX Runtime.
 *
 * @param model - A model, or where to open one.
 * @param names - Names as for {@link createFeatureExtractor}; by default all of {@link getGraphNodeNames}.
 * @returns One entry per name, in that order.
 * @throws {@link TapirError} those of name resolution; `SESSION_FAILED` if ONNX Runtime refuses the model.
 *
 * @example The stages of a ResNet-50, as a feature pyramid needs them.
 * ```ts
 * import { featureInfo } from 'onnx-tapir';
 *
 * const stages = await featureInfo('resnet50.onnx', ['layer1', 'layer2', 'layer3', 'layer4']);
 * console.log(stages.map(({ channels, reduction }) => [channels, reduction])); // [[256, 4], [512, 8], [1024, 16], [2048, 32]]
 * ```
 */
export async function featureInfo(
  model: OnnxModel | ModelSource,
  names?: readonly string[],
): Promise<FeatureInfo[]> {
  const opened = model instanceof OnnxModel ? model : await openModel(model);
  const { graph } = stateOf(opened);
  const values = names
    ? resolveNames(graph, checkNames('names', names)).map(({ request, value }) => [request, value] as const)
    : [...nameValues(graph)].map(([value, name]) => [name, value] as const);
  const types = await inferUnknown(
    opened,
    values.map(([, value]) => value),
  );
  return values.map(([name, value]) => describe(opened, name, value, types.get(value)));
}

/** A line of a listing. */
export interface ListedFeature extends FeatureInfo {
  /** ONNX operator, `input`, or "" for a module. */
  readonly op: string;
  /** Levels of modules above it. */
  readonly depth: number;
  /** Whether it is a module with others below; its value is the last one's. */
  readonly isModule: boolean;
  readonly marks: readonly Mark[];
}

/** Names as a tree: modules in front of what is in them. `problem` says why types are lacking. */
export interface FeatureTree {
  readonly features: readonly ListedFeature[];
  readonly problem: string | undefined;
}

/** Lists the names of a model as a tree; `all` adds constants and sizes, under the names of their tensors. */
export async function listFeatureTree(model: OnnxModel, all: boolean): Promise<FeatureTree> {
  const { graph } = stateOf(model);
  const names = new Map(nameValues(graph));
  const ordered = all ? withUnnamed(model, names) : [...names];
  let types: ReadonlyMap<Value, InferredType> = new Map();
  let problem: string | undefined;
  try {
    types = await inferUnknown(
      model,
      ordered.map(([value]) => value),
    );
  } catch (error) {
    problem = reasonOf(error);
  }
  const features: ListedFeature[] = [];
  const seen = new Set<string>();
  const modules = new Map<string, Value | undefined>();
  const moduleValue = (path: string): Value | undefined => {
    if (!modules.has(path)) {
      const found = readModulePath(graph, path, false);
      modules.set(path, found?.kind === 'value' ? found.value : undefined);
    }
    return modules.get(path);
  };
  for (const [value, name] of ordered) {
    const place = value.producer && moduleTree(graph).places.get(value.producer);
    // A node that has only its own name stands in its module all the same.
    const path = name.includes('.') || !place ? name : `${place.path}.${name}`;
    const above = modulesAbove(path).filter((module) => moduleValue(module) !== undefined);
    above.forEach((module, depth) => {
      if (seen.has(module)) return;
      seen.add(module);
      const last = moduleValue(module)!;
      features.push({
        ...describe(model, module, last, types.get(last)),
        op: '',
        depth,
        isModule: true,
        marks: [],
      });
    });
    const { producer } = value;
    features.push({
      ...describe(model, name, value, types.get(value)),
      op: producer ? opOf(producer) : 'input',
      depth: above.length,
      isModule: false,
      marks: producer ? marksOf(graph, producer) : [],
    });
  }
  return { features, problem };
}

/** `layer1.0.conv1` → `layer1`, `layer1.0`. */
function modulesAbove(name: string): string[] {
  const atoms = name.split('.');
  return atoms.slice(1).map((_, i) => atoms.slice(0, i + 1).join('.'));
}

/** Nodes on constants and sizes have no names to offer but their tensors'. */
function withUnnamed(model: OnnxModel, names: ReadonlyMap<Value, string>): [Value, string][] {
  const { graph } = stateOf(model);
  const computed = graph.nodes.flatMap((node) => node.outputs.filter((value) => value !== undefined));
  const inputs = [...names].filter(([value]) => !value.producer);
  return [
    ...inputs,
    ...computed.map((value): [Value, string] => [value, names.get(value) ?? `tensor:${value.name}`]),
  ];
}

function opOf({ opType, domain }: { readonly opType: string; readonly domain: string }): string {
  return domain === '' ? opType : `${domain}.${opType}`;
}

async function inferUnknown(
  model: OnnxModel,
  values: readonly Value[],
): Promise<ReadonlyMap<Value, InferredType>> {
  return inferTypes(
    model,
    values.filter((value) => {
      const { dtype, dims } = describeValue(value);
      return dtype === null || dims === null;
    }),
  );
}

function describe(
  model: OnnxModel,
  name: string,
  value: Value,
  inferred: InferredType | undefined,
): FeatureInfo {
  return describeTensor(stateOf(model).graph, name, value, describeOutput(value, inferred));
}
