import { describe, expect, it } from 'vitest';
import { checkCarried, checkKeys, rowShape } from '../../../src/datasets/streams/row-output.js';
import type { FeatureColumn } from '../../../src/onnx/tensor/feature-column.js';

const column = (key: string): FeatureColumn => ({ key, dtype: 'float32', dims: [2], elements: 2 });

describe('names in rows', () => {
  it('are refused for outputs if every row has them', () => {
    checkKeys(rowShape('jsonl', undefined, [column('v'), column('error_code'), column('crop')]));
    expect(() => checkKeys(rowShape('jsonl', undefined, [column('error')]))).toThrow(
      'path, status, error, which every row has',
    );
    for (const shape of [
      rowShape('arrow', undefined, [column('error_code')]),
      rowShape('jsonl', 'crop', [column('crop')]),
      rowShape('arrow', 'tile', [column('tile_x')]),
    ])
      expect(() => checkKeys(shape)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });

  it('are refused for carried fields if an output or every row has them', () => {
    const shape = rowShape('jsonl', undefined, [column('v')]);
    checkCarried(shape, 'field', 'id', 'stdin');
    expect(() => checkCarried(shape, 'field', 'v', 'stdin', 3)).toThrow(
      expect.objectContaining({
        code: 'SOURCE_INVALID',
        message: expect.stringContaining('the name of the output "v"'),
        details: expect.objectContaining({ line: 3 }),
      }),
    );
    expect(() => checkCarried(rowShape('arrow', undefined, []), 'column', 'path', 'stdin')).toThrow(
      'its column "path" has the name of a column that every row has',
    );
  });
});
