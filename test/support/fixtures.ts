/** Where test data lies. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { buildResNet } from '../../models/resnet.js';

/** A file or folder of the project. */
export function projectPath(path: string): string {
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}

/** A file or folder of test/fixtures. */
export function fixturePath(path: string): string {
  return projectPath(`test/fixtures/${path}`);
}

/** The larger set of fixtures beside the checkout, which announce.ts unpacks; undefined where it is not there. */
export const sharedFixtures: string | undefined = process.env['SHARED_FIXTURES'];

/** For the titles of suites that need it, so that a report says what did not run. */
export const sharedNote = sharedFixtures === undefined ? ' (NOT RUN: ../shared/fixtures is not here)' : '';

/** A folder of its own for a test file, removed afterwards. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tapir-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A ResNet of 64 × 64 input that runs in a millisecond: torchvision's topology with one block a stage. */
export function tinyResNet(): Uint8Array {
  return buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes;
}
