/** Which names of tensors are those of parameters, and which ones exporters made up. */
import type { Node } from '../graph.js';
import { isUnder, joinPath } from '../module-path.js';
import { isOperation } from '../names/operations.js';
import { isOwnLayer, slotName } from './parameter-slots.js';

/** `layer1.0.conv1.weight`: torch's names are identifiers and numbers with dots between them; RegNet has `block1-0`. */
const TORCH_NAME = /^[\w-]+(\.[\w-]+)*$/;
/** In a Sequential or a ModuleDict, names begin with numbers: `0.weight`, `1x1.weight`. */
const HAS_IDENTIFIER = /(^|\.)[A-Za-z_]/;
/** Names that exporters and optimisers give to what they compute. */
const MADE_UP = /^(val_\d+|_val_\d+|\d+|Constant.*|\w+Fusion_\w*)$/i;
/** Whether a tensor's name is made up, in a file that was exported from torch. */
export function isMadeUp(name: string): boolean {
  return !TORCH_NAME.test(name) || !HAS_IDENTIFIER.test(name) || MADE_UP.test(name) || isOperation(name);
}

/** Paddle's parameters: `conv2d_0.w_0`, `layer_norm_44.b_0`, and `batch_norm2d_2.w_1` for a running mean. */
const PADDLE_NAME = /\.[wb]_\d+$/;

/** Whether a tensor has a name that Paddle gives to parameters, and to nothing else. */
export function isPaddleName(name: string): boolean {
  return PADDLE_NAME.test(name);
}

/**
 * Names that the parameter at an input of a node may have in the state dict, likeliest first.
 *
 * @param written - The name that the file gives it here, if it is not made up. Exporters merge equal tensors, so it may be the name
 * of an equal parameter of another module.
 * @param module - The path of the module that runs the node.
 * @param isShared - Whether the initializer is read at several places. Otherwise it was not merged, and its name is right.
 */
export function parameterNames(
  node: Node,
  slot: number,
  written: string | undefined,
  module: string | undefined,
  isShared: boolean,
): string[] {
  const attribute = slotName(node, slot);
  const ofModules = (paths: readonly string[]): string[] =>
    attribute === undefined ? [] : paths.map((path) => joinPath(path, attribute));
  const modules = module === undefined ? [] : [module];
  if (written === undefined) {
    // A matrix that is read at several places may be that of a module that runs again.
    const paths = isShared ? unique([...modules, ...modules.map(calledOnce)]) : modules;
    return namedByBias(node, paths) ?? ofModules(paths);
  }
  const ofModule = ofModules(modules);
  if (module === undefined || !isShared || isUnder(written, calledOnce(module)))
    return unique([written, ...ofModule]);
  const relocated = relocate(written, module);
  const guesses = isOwnLayer(node) ? [...ofModule, ...relocated] : [...relocated, ...ofModule];
  return unique([...guesses, written]);
}

/**
 * The parameter that an input of a node reads, as dynamo's exporter spells it in the torch call: `layer1_0_conv1_weight`. Undefined if
 * the call does not state it, or states several that it may be.
 */
export function torchParameterAt(node: Node, slot: number): string | undefined {
  const all = node.scanned.torchParameters ?? [];
  const attribute = slotName(node, slot);
  if (all.length <= 1) return statesNone(node, slot) ? undefined : all[0];
  const fitting = all.filter((name) => name === attribute || name.endsWith(`_${attribute}`));
  return fitting.length === 1 ? fitting[0] : undefined;
}

/** Whether a torch call states no parameter for an input of a node. A layer whose weight was computed states its bias alone. */
export function statesNone(node: Node, slot: number): boolean {
  const all = node.scanned.torchParameters;
  return (
    all?.length === 0 ||
    (all?.length === 1 && slotName(node, slot) === 'weight' && /(^|_)bias$/.test(all[0]!))
  );
}

/** A name as dynamo's exporter spells it. */
export function spellForTorch(name: string): string {
  return name.replaceAll(/\W/g, '_');
}

/** The name of a parameter that dynamo's exporter spelled, as far as names and the module around the node tell it. */
export function readSpelled(
  spelled: string,
  names: readonly string[],
  module: string | undefined,
): string | undefined {
  const known = names.find((name) => spellForTorch(name) === spelled);
  if (known !== undefined) return known;
  const start = module === undefined || module === '' ? '' : `${spellForTorch(module)}_`;
  if (module === undefined || !spelled.startsWith(start)) return undefined;
  const inside = spelled.slice(start.length);
  if (start !== '' || !inside.includes('_')) return joinPath(module, inside);
  // `scales_0` is `scales.0` where an equal parameter is `scales.1`.
  return names.map((name) => readAs(inside, name)).find((name) => name !== undefined);
}

/** A spelled name with dots where a name of as many words has them. */
function readAs(spelled: string, like: string): string | undefined {
  const words = spelled.split('_');
  const marks = like.match(/[._]/g) ?? [];
  if (words.length !== marks.length + 1) return undefined;
  return words.map((word, i) => word + (marks[i] ?? '')).join('');
}

/** TorchScript marks a module that runs again: `block.0_1` is `block.0`. */
export function calledOnce(module: string): string {
  return module.replaceAll(/(?<=\.|^)(\w+?)_\d+(?=\.|$)/g, '$1');
}

/** The weight of a product goes by the bias that is added to it: `attn.in_proj_weight` with `attn.in_proj_bias`. */
function namedByBias(node: Node, modules: readonly string[]): string[] | undefined {
  const product = node.outputs[0];
  const sum = product?.uses.find(({ opType }) => opType === 'Add');
  const bias = /^(Gemm|Conv|ConvTranspose)$/.test(node.opType)
    ? node.inputs[2]
    : sum?.inputs.find((input) => input !== product);
  if (!bias || isMadeUp(bias.name) || !bias.name.endsWith('bias')) return undefined;
  const [module] = modules;
  // A bias that is read once was not merged with that of an equal module.
  const isOwn =
    module === undefined || bias.uses.length === 1 || modules.some((path) => isUnder(bias.name, path));
  const names = isOwn ? [bias.name] : relocate(bias.name, module);
  return names.map((name) => name.replace(/bias$/, 'weight'));
}

/** The name of a parameter of an equal module, in this one: what stands at the same depth. */
export function relocate(name: string, module: string): string[] {
  const inside = name.split('.').slice(module.split('.').length);
  return inside.length > 0 ? [joinPath(module, inside.join('.'))] : [];
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}
