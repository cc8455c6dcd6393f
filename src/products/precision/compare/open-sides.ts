/** The two models of a comparison, with outputs that belong together. */
import { Extractor } from '../../../extract/extractor.js';
import { OnnxModel, openModel, type ModelSource } from '../../../run/model/open/open-model.js';
import { invalidOption, isPlainObject, withDefaults } from '../../../base/checks.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import type { ReturnNodes } from '../../../run/model/open/return-nodes.js';
import type { TransformRequest } from '../../../photos/feeds/choose-transform.js';

/** A model to compare: a path, bytes, an opened model, or an extractor, which stays open; alone, or with what belongs to it. */
export type ComparedSource = ModelSource | OnnxModel | Extractor | ComparedSide;

/** A model to compare, with what differs from the options of the comparison. */
export interface ComparedSide {
  readonly model: ModelSource | OnnxModel | Extractor;
  /** What to return from this model. The keys must be those of the other one. */
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
  /** Keys that both have, in the order of A. */
  readonly keys: readonly string[];
}

/**
 * Opens both models. Without names to return, the graph outputs are compared: those of the same name, or the only output of each. Throws
 * `OPTION_INVALID` if no output of A belongs to one of B; errors of {@link createFeatureExtractor}.
 */
export async function openSides(givenA: Side, givenB: Side, device: Device): Promise<Sides> {
  const own: Extractor[] = [];
  const open = async (source: OnnxModel | Extractor, nodes: ReturnNodes | undefined): Promise<Extractor> => {
    if (source instanceof Extractor && !nodes) return source;
    const names = nodes ?? outputNames(source);
    const place = source instanceof Extractor ? {} : { device };
    const opened = await createFeatureExtractor(source, names, { ...place, outputDtype: 'keep' });
    own.push(opened);
    return opened;
  };
  const close = async (): Promise<void> => {
    for (const extractor of own) await extractor.close();
  };
  try {
    const [sourceA, sourceB] = [await openSource(givenA.model), await openSource(givenB.model)];
    const a = await open(sourceA, givenA.returnNodes);
    const b = await open(sourceB, givenB.returnNodes ?? pairOutputs(a, sourceB));
    const [keysOfA, keysOfB] = [outputNames(a), outputNames(b)];
    const keys = keysOfA.filter((key) => keysOfB.includes(key));
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

/** The outputs of B under the keys of A; undefined to take them as they are. */
function pairOutputs(a: Extractor, b: OnnxModel | Extractor): ReturnNodes | undefined {
  const [keys, names] = [outputNames(a), outputNames(b)];
  if (b instanceof Extractor) return undefined;
  const shared = keys.filter((key) => names.includes(key));
  if (shared.length > 0) return shared;
  return keys.length === 1 && names.length === 1 ? [[`tensor:${names[0]!}`, keys[0]!]] : undefined;
}
