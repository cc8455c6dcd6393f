/** The two models of a comparison, with outputs that belong together. */
import { Extractor } from '../../../extract/extractor.js';
import { OnnxModel, openModel, type ModelSource } from '../../../run/model/open/open-model.js';
import { invalidOption, isPlainObject, withDefaults } from '../../../base/checks.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import { LANE_DEFAULTS } from '../../../run/runtime/lanes/lane-options.js';
import type { ReturnNodes } from '../../../run/model/open/return-nodes.js';
import type { TransformRequest } from '../../../photos/feeds/choose-transform.js';

/** A model to compare: a path, bytes, an opened model, or an extractor, which stays open; alone, or with what belongs to it. */
export type ComparedSource = ModelSource | OnnxModel | Extractor | ComparedSide;

/** A model to compare, with what differs from the options of the comparison. */
export interface ComparedSide {
  readonly model: ModelSource | OnnxModel | Extractor;
  /** What to return from this model. The keys must be those of the other one, unless each model has one output. */
  readonly returnNodes?: ReturnNodes | undefined;
  /** Preprocessing for this model. */
  readonly transform?: TransformRequest | undefined;
}

/** A side, read. */
export type Side = Required<ComparedSide> & { readonly transform: TransformRequest };

/** Reads a side; what it does not state is that of both. Throws `OPTION_INVALID` for an unknown field. */
export function readSide(
  what: string,
  source: ComparedSource,
  { returnNodes, transform }: Omit<Side, 'model'>,
): Side {
  if (!isPlainObject(source)) return { model: source as Side['model'], returnNodes, transform };
  const defaults: Side = { model: undefined as never, returnNodes, transform };
  const side = withDefaults(defaults, source as ComparedSide, what);
  if (side.model !== undefined) return side;
  throw invalidOption(`${what}.model`, 'a model, or where to open one', side.model);
}

/** Two open extractors, and their outputs that are compared. */
export interface Sides extends AsyncDisposable {
  readonly a: Extractor;
  readonly b: Extractor;
  /** The key of each output that is compared, and of its like in B, in the order of A. */
  readonly keys: readonly (readonly [ofA: string, ofB: string])[];
}

/**
 * Opens both models. Without names to return, the graph outputs are compared; if B was cut out of A, the values of A that its outputs
 * are. Outputs of the same name belong together, or the only output of each. Throws `OPTION_INVALID` if no output of A belongs to one of B;
 * errors of {@link createFeatureExtractor}.
 */
export async function openSides(givenA: Side, givenB: Side, device: Device): Promise<Sides> {
  const own: Extractor[] = [];
  const open = async (source: OnnxModel | Extractor, nodes: ReturnNodes | undefined): Promise<Extractor> => {
    if (source instanceof Extractor && !nodes) return source;
    const names = nodes ?? outputNames(source);
    // What is compared is the files, not what their own files make of them.
    const plain = { engine: LANE_DEFAULTS.engine, precision: LANE_DEFAULTS.precision };
    const place = source instanceof Extractor ? {} : { ...plain, device };
    const opened = await createFeatureExtractor(source, names, { ...place, outputDtype: 'keep' });
    own.push(opened);
    return opened;
  };
  const close = async (): Promise<void> => {
    for (const extractor of own) await extractor.close();
  };
  try {
    const [sourceA, sourceB] = [await openSource(givenA.model), await openSource(givenB.model)];
    const isOpen = givenA.returnNodes === undefined && givenB.returnNodes === undefined;
    const a = await open(sourceA, isOpen ? valuesInA(sourceA, sourceB) : givenA.returnNodes);
    const keysOfA = outputNames(a);
    const b = await open(sourceB, givenB.returnNodes ?? sharedOutputs(keysOfA, sourceB));
    const keysOfB = outputNames(b);
    const keys = pairKeys(keysOfA, keysOfB);
    if (keys.length === 0) {
      const text = keysOfB.map((name) => `"${name}"`).join(', ');
      const expected = `for both models, so that outputs have the same keys (B has ${text})`;
      throw invalidOption('returnNodes', expected, keysOfA);
    }
    return { a, b, keys, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openSource(source: ComparedSide['model']): Promise<OnnxModel | Extractor> {
  return source instanceof Extractor || source instanceof OnnxModel ? source : openModel(source);
}

function outputNames(source: OnnxModel | Extractor): string[] {
  return source.outputs.map(({ name }) => name);
}

/** The outputs of a model that A has, too, so that no others are computed; undefined to take all as they are. */
function sharedOutputs(keysOfA: readonly string[], b: OnnxModel | Extractor): ReturnNodes | undefined {
  const shared = outputNames(b).filter((name) => keysOfA.includes(name));
  return b instanceof Extractor || shared.length === 0 ? undefined : shared;
}

/** Keys that both have; else the only one of each. */
function pairKeys(keysOfA: readonly string[], keysOfB: readonly string[]): (readonly [string, string])[] {
  const shared = keysOfA.filter((key) => keysOfB.includes(key));
  if (shared.length > 0) return shared.map((key) => [key, key]);
  return keysOfA.length === 1 && keysOfB.length === 1 ? [[keysOfA[0]!, keysOfB[0]!]] : [];
}

/** The values of A that the outputs of B are, as in a file that was cut out of A; undefined if A has not all of them. */
function valuesInA(a: OnnxModel | Extractor, b: OnnxModel | Extractor): ReturnNodes | undefined {
  if (a instanceof Extractor || b instanceof Extractor) return undefined;
  const values = new Set(a.nodes.flatMap(({ outputs }) => outputs.map(({ name }) => name)));
  const pairs = outputNames(b).map((key) => {
    // What a cut adds to give an output another name.
    const copy = b.nodes.find(
      (node) => node.name.startsWith('tapir/Identity') && node.outputs[0]?.name === key,
    );
    return { key, value: copy?.inputs[0] ?? key };
  });
  if (!pairs.every(({ value }) => values.has(value))) return undefined;
  return pairs.map(({ value, key }) => [`tensor:${value}`, key] as const);
}
