/** The ways to call onnxruntime on a device, side by side: bindings, and options of its CUDA provider. */
import type * as tapir from 'onnx-tapir';
import { createFeatureExtractor, pruneModel, type Device, type Tensor } from 'onnx-tapir';
import { lowerPrecision } from 'onnx-tapir/precision';

export async function msOf(step: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await step();
  return performance.now() - started;
}

export const median = (list: readonly number[]): number =>
  list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]!;
export const round = (value: number): number => Number(value.toPrecision(4));

interface WaysOptions {
  readonly device: Device;
  readonly model: tapir.ModelSource;
  /** Height and width of an image. */
  readonly side: number;
  readonly nodes: readonly string[];
  /** In float16. */
  readonly half: boolean;
  readonly rows: number;
  readonly rounds: number;
  /** Images per second with so many batches under way. */
  readonly rateOf: (
    runs: Pick<tapir.Extractor, 'run'>,
    input: Tensor,
    rows: number,
    atOnce: number,
  ) => Promise<number>;
}

const c = { binding: 'c' } as const;
/** How onnxruntime is called, and with which options of its CUDA provider. The first is what the others are measured against. */
const WAYS: Readonly<Record<string, tapir.Options<tapir.FeatureExtractorOptions>>> = {
  'binding node': { binding: 'node' },
  'binding c': c,
  'c, useTf32 false': { ...c, session: { cuda: { useTf32: false } } },
  'c, preferNhwc': { ...c, session: { cuda: { preferNhwc: true } } },
  'c, HEURISTIC': { ...c, session: { cuda: { cudnnConvAlgoSearch: 'HEURISTIC' } } },
  'c, kSameAsRequested': { ...c, session: { cuda: { arenaExtendStrategy: 'kSameAsRequested' } } },
  'c, gpuMemLimit 8 GiB': { ...c, session: { cuda: { gpuMemLimit: 2 ** 33 } } },
};

/** Bytes in: each way in turn, round by round. A way that fails says why, and the others go on. */
export async function measureWays({
  device,
  model,
  side,
  nodes,
  half,
  rows,
  rounds,
  rateOf,
}: WaysOptions): Promise<unknown> {
  const pruned = await pruneModel(model, nodes, { input: 'image-uint8' });
  const whole = half ? (await lowerPrecision(pruned, { precision: 'float16' })).model : pruned;
  await using reference = await createFeatureExtractor(pruned, undefined, { device: 'cpu' });
  const bytes = Uint8Array.from({ length: rows * 3 * side * side }, (_, i) => (i * 2654435761) >>> 13);
  const pixels: Tensor<'uint8'> = { dtype: 'uint8', dims: [rows, side, side, 3], data: bytes };
  const last = nodes.at(-1)!;
  const expected = (await reference.run(pixels))[last]!.data as Float32Array;
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const open = new Map<string, Pick<tapir.Extractor, 'run' | 'close'>>();
  const ways: Record<string, Record<string, unknown>> = {};
  const rates = new Map<string, number[]>();
  try {
    for (const [name, options] of Object.entries(WAYS))
      try {
        const extractor = await createFeatureExtractor(whole, undefined, { device, ...options });
        open.set(name, extractor);
        const firstMs = round(await msOf(() => extractor.run(pixels)));
        const actual = (await extractor.run(pixels))[last]!.data as Float32Array;
        const difference = expected.reduce(
          (most, value, i) => Math.max(most, Math.abs(value - actual[i]!)),
          0,
        );
        ways[name] = { firstMs, 'relative to the CPU': round(difference / largest) };
        rates.set(name, []);
      } catch (error) {
        ways[name] = { failed: String(error) };
      }
    for (let i = 0; i <= rounds; i++)
      for (const [name, list] of rates) {
        const rate = await rateOf(open.get(name)!, pixels, rows, 2);
        if (i > 0) list.push(rate);
      }
    const base = [...rates.values()][0] ?? [];
    for (const [name, list] of rates) {
      const ratio = round(median(list.map((rate, i) => rate / base[i]!)));
      Object.assign(ways[name]!, { perSecond: round(median(list)), ratio });
    }
  } finally {
    for (const extractor of open.values()) await extractor.close();
  }
  return { rows, nodes, precision: half ? 'float16' : 'float32', ways };
}
