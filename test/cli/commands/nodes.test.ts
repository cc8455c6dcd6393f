import { describe, expect, it } from 'vitest';
import { groupNodes } from '../../../src/cli/commands/nodes.js';
import type { ListedFeature } from '../../../src/run/model/oracle/describe-features.js';

const feature = (name: string, op: string, isModule = false): ListedFeature =>
  ({ name, op, isModule, depth: 0, tensor: name, marks: [], dims: [1], dtype: 'float32' }) as never;
const names = (features: readonly ListedFeature[]): string[] => groupNodes(features).map(({ name }) => name);

describe('groupNodes', () => {
  it('shows a long run of nodes as one line, and keeps modules, inputs and short runs', () => {
    const run = Array.from({ length: 30 }, (_, i) =>
      feature(`/Add_${i}`, ['Add', 'Mul', 'Relu', 'Erf'][i % 4]!),
    );
    const short = run.slice(0, 5);
    expect(names([feature('input', 'input'), ...run, feature('layers', '', true), ...short])).toEqual([
      'input',
      '(30 nodes, up to /Add_29)',
      'layers',
      ...short.map(({ name }) => name),
    ]);
    expect(groupNodes(run)[0]).toMatchObject({ op: 'Add, Mul, Relu, …', tensor: '', dims: null });
  });
});
