/** The corpus of graphs on another engine or device: the values of ONNX Runtime on the CPU within a share of their range, or a typed error. */
import { join } from 'node:path';
import {
  createFeatureExtractor,
  isTapirError,
  type FeatureExtractorOptions,
  type Tensor,
  type TensorLike,
} from 'onnx-tapir';
import { expect } from 'vitest';
import { fixturePath, sharedFixtures } from './fixtures.js';
import { readCorpus, readValue, type CorpusEntry, type Tap } from './graphs.js';

const source = sharedFixtures === undefined ? fixturePath('graphs') : join(sharedFixtures, 'graphs');

/** The graphs that run on the CPU and take no texts. */
export const runnable: readonly CorpusEntry[] = readCorpus(source).filter(
  ({ ort, taps, inputs }) =>
    ort?.loads === true && taps !== undefined && inputs?.every(({ dtype }) => dtype !== 'string') === true,
);

/** Where the corpus runs, and how near its values must be. */
export interface CorpusPlace {
  readonly options: Partial<Pick<FeatureExtractorOptions, 'device' | 'engine'>>;
  /** By how much a float may differ, as a share of the range of its tensor. */
  readonly tolerance: number;
  /** What does not run: the code of the error, by the name of the entry. All else must run. */
  readonly unreadable: Readonly<Record<string, string>>;
  /** Values that are not compared: `ENTRY TENSOR`. */
  readonly chaotic: ReadonlySet<string>;
}

/** Runs the parts of an entry, and compares them. */
export async function checkEntry(entry: CorpusEntry, place: CorpusPlace): Promise<void> {
  for (const taps of groupTaps(entry.taps!)) await checkTaps(entry, taps, place);
}

/** Float tensors may differ by a share of their range; all else is equal. */
function expectNear(actual: Tensor, expected: TensorLike, name: string, tolerance: number): void {
  expect(actual.dims, name).toEqual(expected.dims);
  const [a, b] = [
    Array.from(actual.data as Iterable<unknown>),
    Array.from(expected.data as Iterable<unknown>),
  ];
  if (!['float32', 'float64'].includes(actual.dtype)) {
    if (actual.dtype !== 'float16') expect(a, name).toEqual(b);
    return;
  }
  const range = Math.max(...b.map((value) => Math.abs(value as number)).filter(Number.isFinite), 0);
  const off = a.findIndex((value, i) => {
    const [x, y] = [value as number, b[i] as number];
    return !Object.is(x, y) && x !== y && !(Math.abs(x - y) <= tolerance * range);
  });
  expect(off < 0 ? null : [name, off, a[off], b[off]]).toBeNull();
}

/**
 * What to cut an entry to: its largest part, and all others in one. A part on its own has its operators fused up to its outputs; in
 * the second one every value is an output.
 */
function groupTaps(taps: readonly Tap[]): (readonly Tap[])[] {
  const [largest, ...others] = taps
    .filter((tap) => tap.expected.every(({ file }) => typeof file === 'string'))
    .toSorted((a, b) => b.nodes - a.nodes);
  return [[largest], others].filter((group): group is Tap[] => group.length > 0 && group[0] !== undefined);
}

async function checkTaps(entry: CorpusEntry, taps: readonly Tap[], place: CorpusPlace): Promise<void> {
  const request = [...new Set(taps.flatMap((tap) => tap.request))];
  const opening = createFeatureExtractor(join(source, entry.file), request, {
    ...place.options,
    outputDtype: 'keep',
  });
  const extractor = await opening.catch((error: unknown) => error);
  if (isTapirError(extractor)) {
    // Which of the parts is it?
    if (taps.length > 1) for (const tap of taps) await checkTaps(entry, [tap], place);
    // What no engine gives out is refused in the same words.
    else if (!['OUTPUT_NOT_TENSOR', 'NAME_AMBIGUOUS'].includes(extractor.code))
      expect(extractor, extractor.message).toMatchObject({ code: place.unreadable[entry.name] });
    return;
  }
  await using open = extractor as Awaited<typeof opening>;
  const given = new Map(entry.inputs!.map((input) => [input.name, input.file]));
  const outputs: Record<string, Tensor> = await open.run(
    Object.fromEntries(open.inputs.map((input) => [input.name, readValue(source, given.get(input.name)!)])),
  );
  for (const expected of taps.flatMap((tap) => tap.expected))
    if (!place.chaotic.has(`${entry.name} ${expected.name}`))
      expectNear(outputs[expected.name]!, readValue(source, expected.file!), expected.name, place.tolerance);
}
