/** Texts for native code: arrays of addresses of texts that end in a zero byte. */
import type { OrtApi } from './onnxruntime-api.js';

/** Texts, and where they are. The bytes must be held as long as native code reads them. */
export interface NativeTexts {
  readonly addresses: BigUint64Array;
  readonly bytes: readonly Uint8Array[];
}

export function texts(api: Pick<OrtApi, 'addressOf'>, list: readonly string[]): NativeTexts {
  const bytes = list.map((text) => Buffer.from(`${text}\0`));
  return { addresses: BigUint64Array.from(bytes, (text) => api.addressOf(text)), bytes };
}
