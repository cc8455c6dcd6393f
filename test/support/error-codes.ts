/** All error codes, read from the source: types are gone at run time. */
import { readFileSync } from 'node:fs';
import type { ErrorCode } from '../../src/base/errors.js';
import { projectPath } from './fixtures.js';

const text = readFileSync(projectPath('src/base/errors.ts'), 'utf8');
const body = text.slice(text.indexOf('interface ErrorDetails'), text.indexOf('export type ErrorCode'));

export const ERROR_CODES = [...body.matchAll(/^ {2}([A-Z_]+):/gm)].map((match) => match[1] as ErrorCode);
