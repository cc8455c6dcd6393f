/** Names of files with the paths of POSIX. */
import { describe } from 'vitest';
import { testNames } from '../../support/name-cases.js';

describe.skipIf(process.platform === 'win32')('10,000 random paths on POSIX', () => testNames('posix'));
