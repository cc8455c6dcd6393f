/** What a dataset says of each input, however it was written. */
import { openDataset } from 'onnx-tapir';

/** By path: the features of an input, or the code of its error. */
export async function vectorsOf(folder: string, key = 'f'): Promise<Map<string | null, number[] | string>> {
  const dataset = await openDataset(folder);
  const rows = new Map<number, number[]>();
  for await (const { firstRow, rows: count, data } of dataset.blocks(key)) {
    const length = data.length / count;
    for (let row = 0; row < count; row++)
      rows.set(firstRow + row, Array.from(data.subarray(row * length, (row + 1) * length)));
  }
  const vectors = new Map<string | null, number[] | string>();
  for await (const { path, row, errorCode } of dataset.rows()) {
    if (vectors.has(path)) throw new Error(`${path} is there twice`);
    vectors.set(path, row === null ? errorCode! : rows.get(row)!);
  }
  return new Map([...vectors].toSorted(([a], [b]) => ((a ?? '') < (b ?? '') ? -1 : 1)));
}
