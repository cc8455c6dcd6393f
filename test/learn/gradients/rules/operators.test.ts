/** Every operator's gradient against torch's in float64: the shared fixtures, optimised by the runtime and not. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runGradients } from '../../../support/gradients.js';
import { sharedNote } from '../../../support/fixtures.js';
import {
  decode,
  expectClose,
  hasTraining,
  readTraining,
  trainingPath,
  type Stored,
} from '../../../support/training.js';

interface OperatorCase {
  readonly model: string;
  readonly inputs: Stored;
  readonly upstream: Stored;
  readonly gradients: Stored;
  /** Further right answers, at a kink or a tie. */
  readonly alternatives?: readonly { readonly gradients: Stored }[];
}

const cases = hasTraining ? readTraining<readonly { id: string; family: string }[]>('ops/index.json') : [];
const families = new Map<string, string[]>();
for (const { id, family } of cases) families.set(family, [...(families.get(family) ?? []), id]);

const decodeAll = (stored: Stored) =>
  Object.fromEntries(Object.entries(stored).map(([name, tensor]) => [name, decode(tensor)]));

describe.runIf(hasTraining)(`operators${sharedNote}`, () => {
  it('has all of them', () => {
    expect(cases.length).toBeGreaterThanOrEqual(216);
  });

  for (const [family, ids] of families) {
    it.each(ids)(`${family}: %s`, async (id) => {
      const {
        model,
        inputs,
        upstream,
        gradients,
        alternatives = [],
      } = readTraining<OperatorCase>(`ops/${id}.json`);
      const names = Object.keys(gradients);
      // A tensor may have the name of a module.
      const asked = names.map((name) => `tensor:${name}`);
      const bytes = readFileSync(trainingPath(`ops/${model}`));
      for (const level of ['disabled', 'all'] as const) {
        const results = await runGradients(bytes, asked, decodeAll(upstream), decodeAll(inputs), level);
        const compare = (expected: Stored): void => {
          for (const name of names)
            expectClose(`${name} (${level})`, results[`tensor:${name}`]!, expected[name]!);
        };
        const isOther = alternatives.some(({ gradients: other }) => succeeds(() => compare(other)));
        if (!isOther) compare(gradients);
      }
    });
  }
});

function succeeds(step: () => void): boolean {
  try {
    step();
    return true;
  } catch {
    return false;
  }
}
