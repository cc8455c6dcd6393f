/** Which tests `npm run check -- --changed` runs. */
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

const { testsOf } = (await import(projectPath('scripts/changed-tests.js'))) as {
  readonly testsOf: (changed: readonly string[]) => readonly string[];
};

describe('the tests that a change needs', () => {
  const search = 'test/products/features/search/search-dataset.test.ts';
  const cut = 'test/run/model/oracle/compare-pruned.test.ts';

  it('reach it by imports, names of the package or commands, and stand on its floor or above', () => {
    const needed = testsOf(['src/products/features/search/search-dataset.ts']);
    expect(needed).toContain(search);
    expect(needed).toContain('test/cli/commands/search.test.ts');
    expect(needed).not.toContain(cut);
    expect(testsOf(['src/onnx/graph/rewrite/prune.ts'])).toEqual(expect.arrayContaining([cut, search]));
  });

  it('are those that name a file of another kind', () => {
    const needed = testsOf(['docs/guides/search.md']);
    expect(needed).toContain('test/guides.test.ts');
    expect(needed).not.toContain(search);
    expect(testsOf(['examples/photos/sea/sea-0.jpg'])).toContain('test/guides.test.ts');
  });

  it('are all, where all depend on it', () => {
    expect(testsOf(['vitest.config.ts']).length).toBeGreaterThan(500);
  });
});
