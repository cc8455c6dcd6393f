/** What callers pass by mistake, and what nobody would. */

const circle: Record<string, unknown> = {};
circle['self'] = circle;

/** A list of holes. */
const holes: unknown[] = [];
holes.length = 5;

/** Objects of another copy of the package are instances of classes with these names. */
export const foreign: readonly object[] = [
  'OnnxModel',
  'PrunedModel',
  'FeatureExtractor',
  'DataParallel',
].map((name) => new { [name]: class {} }[name]!());

export const wrongValues: readonly unknown[] = [
  undefined, null, true, 0, -1, 1.5, NaN, Infinity, 5n, '', ' ', 'nothing.onnx', 'file:', 'file://host/x', 'file:%zz', 'a\0b', '\0',
  'file:\0', 'x'.repeat(1_000_000), Symbol('s'), () => undefined, class {}, [], [null], [[]], holes, ['fc', 5], [['fc']],
  [['fc', 'a', 'b']], ['fc', ''], {}, { fc: 5 }, { fc: '' }, { fc: null }, { __proto__: null }, Object.create(null),
  { toString: 5 }, { toJSON: () => undefined }, circle, new Map(), new Map([['a', 1]]), new Map([[5, 'x']]), new Set(['fc']),
  new Date(NaN), /x/, new Error('x'), new Uint8Array(0), new Uint8Array(40).fill(255), new Float32Array(3), new ArrayBuffer(4),
  new DataView(new ArrayBuffer(4)), new URL('http://x/y'), new URL('file://host/x'), new URL('file:///nothing.onnx'),
  Buffer.from('PK'), Promise.resolve({}), { device: 'gpu' }, { devices: [] }, { devices: 'cpu' }, { session: 5 },
  { sizes: 5 }, { rows: 'x' }, { weights: 'x' }, { split: {} }, { signal: 5 }, { signal: AbortSignal.abort() }, { seconds: 'x' },
  { pool: { fc: 5 } }, { input: { type: 'x' } }, { names: 5 }, { names: '\0' }, { overwrite: 'x' }, { dims: 5, data: 5 },
  { dims: [1], data: null }, { data: [], dims: [-1] }, { model: 5 }, { manifest: {} }, { manifest: { features: {} } }, { head: null },
  ...foreign,
]; // prettier-ignore

/** Whether a value leaves all options out: such a call is right, and does its work. */
export function isNothing(value: unknown): boolean {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return value === undefined || (isObject && Object.keys(value).length === 0);
}
