/** Feature files, whatever their format. */
import type { DType, Tensor } from '../../runtime/tensor.js';
import { NpyWriter } from './npy.js';

export const FEATURE_FORMATS = ['npy'] as const;
export type FeatureFormat = (typeof FEATURE_FORMATS)[number];

export interface FeatureRows {
  readonly tensor: Tensor;
  readonly firstRow: number;
  readonly paths: readonly (string | null)[];
}

export interface FeatureWriter {
  append(rows: FeatureRows): Promise<void>;
  finish(): Promise<number>;
  discard(): Promise<void>;
}

export async function createFeatureWriter(
  _format: FeatureFormat,
  path: string,
  _key: string,
  dtype: DType,
  rowDims: readonly number[],
): Promise<FeatureWriter> {
  const npy = await NpyWriter.create(path, dtype, rowDims);
  return {
    append: ({ tensor }) => npy.append(tensor.data as Exclude<Tensor['data'], string[]>, tensor.dims[0]!),
    finish: () => npy.finish(),
    discard: () => npy.discard(),
  };
}
