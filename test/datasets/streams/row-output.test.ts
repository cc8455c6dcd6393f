import { describe, expect, it } from 'vitest';
import { checkCarried, checkKeys } from '../../../src/datasets/streams/row-output.js';
import type { FeatureColumn } from '../../../src/tensor/feature-column.js';

const column = (key: string): FeatureColumn => ({ key, dtype: 'float32', dims: [2], elements: 2 });

describe('names in rows', () => {
  it('are refused for outputs if every row has them', () => {
    checkKeys('jsonl', [column('v'), column('error_code')]);
    expect(() => checkKeys('jsonl', [column('error')])).toThrow('path, status, error, which every row has');
    expect(() => checkKeys('arrow', [column('error_code')])).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    );
  });

  it('are refused for carried fields if an output or every row has them', () => {
    checkCarried('jsonl', [column('v')], 'field', 'id', 'stdin');
    expect(() => checkCarried('jsonl', [column('v')], 'field', 'v', 'stdin', 3)).toThrow(
      expect.objectContaining({
        code: 'SOURCE_INVALID',
        message: expect.stringContaining('the name of the output "v"'),
        details: expect.objectContaining({ line: 3 }),
      }),
    );
    expect(() => checkCarried('arrow', [], 'column', 'path', 'stdin')).toThrow(
      'its column "path" has the name of a column that every row has',
    );
  });
});
