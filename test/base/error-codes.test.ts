/** Every error code is documented by a test that produces it. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERROR_CODES } from '../support/error-codes.js';
import { projectPath } from '../support/fixtures.js';

const tests = readdirSync(projectPath('test'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts') && !file.startsWith('error-codes'))
  .map((file) => readFileSync(projectPath(`test/${file}`), 'utf8'))
  .join('\n');

describe('error codes', () => {
  it('are there', () => expect(ERROR_CODES.length).toBeGreaterThan(25));

  it.each(ERROR_CODES)('%s is produced by a test', (code) => {
    expect(new RegExp(`['"]${code}['"]`).test(tests), 'no test names it').toBe(true);
  });
});
