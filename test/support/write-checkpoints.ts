/**
 * Writes checkpoints of numbered steps into a folder, and prints the number of each step when its checkpoint is written. All
 * elements of a checkpoint are its step, so that a reader can tell whether tensors and facts belong together.
 *
 * Usage: write-checkpoints.ts FOLDER FIRST_STEP LAST_STEP
 */
import { writeSync } from 'node:fs';
import { writeCheckpoint } from '../../src/learn/train/runs/checkpoint.js';
import { checkpointOf } from './checkpoints.js';

const [folder, first, last] = process.argv.slice(2) as [string, string, string];
for (let step = Number(first); step <= Number(last); step++) {
  await writeCheckpoint(folder, checkpointOf(step));
  writeSync(1, `${step}\n`);
}
