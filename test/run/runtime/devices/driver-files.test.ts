/** GPUs and access rights from the driver's files, in a simulated file system. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  hasDriver,
  listDeviceFiles,
  readDriverFiles,
} from '../../../../src/run/runtime/devices/driver-files.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { UUIDS } from '../../../support/nvidia.js';

const scratch = scratchFolder();

describe('the driver’s files', () => {
  it('list GPUs by bus id, only those that are given to the container', () => {
    const root = join(scratch, 'root');
    const add = (busId: string, text: string): void => {
      mkdirSync(join(root, 'proc/driver/nvidia/gpus', busId), { recursive: true });
      writeFileSync(join(root, 'proc/driver/nvidia/gpus', busId, 'information'), text);
    };
    add('0000:3b:00.0', `Model: \t\t Tesla T4\nGPU UUID: \t GPU-????????-????\nDevice Minor: \t 1\n`);
    add(
      '0000:04:00.0',
      `Model: \t\t Tesla V100\nGPU UUID: \t ${UUIDS[0]}\nBus Location: \t 0000:04:00.0\nDevice Minor: \t 0\n`,
    );
    add('0000:05:00.0', `Model: \t\t Hidden\nDevice Minor: \t 5\n`);
    mkdirSync(join(root, 'dev'));
    for (const name of ['nvidia0', 'nvidia1', 'nvidia7', 'nvidiactl', 'nvidia-uvm', 'null'])
      writeFileSync(join(root, 'dev', name), '');
    expect(readDriverFiles(root).map(({ name, uuid, pciBusId }) => [name, uuid, pciBusId])).toEqual([
      ['Tesla V100', UUIDS[0], '0000:04:00.0'],
      ['Tesla T4', null, '0000:3b:00.0'],
      ['NVIDIA GPU', null, null],
    ]);
    expect(listDeviceFiles(root).map(({ problem }) => problem)).toEqual([null, null, null, null, null]);
    expect(hasDriver(root)).toBe(true);
    expect(readDriverFiles(join(scratch, 'nothing'))).toEqual([]);
  });
});
