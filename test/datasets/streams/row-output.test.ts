import { describe, expect, it } from 'vitest';
import { cannotCarry, checkKeys, collisionOf } from '../../../src/datasets/streams/row-output.js';
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
    expect(collisionOf('jsonl', [column('v')], 'field', 'id')).toBeUndefined();
    expect(collisionOf('jsonl', [column('v')], 'field', 'v')).toContain('the name of the output "v"');
    expect(collisionOf('arrow', [], 'column', 'path')).toContain(
      'its column "path" has the name of a column that every row has',
    );
    expect(cannotCarry('stdin', 'why', 3)).toMatchObject({ code: 'SOURCE_INVALID', details: { line: 3 } });
  });
});
