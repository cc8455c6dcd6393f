/** A model and its sidecar: whenever a run is killed, a model that is there has its own sidecar. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeAfter, writeAtomically } from '../../src/base/atomic-file.js';
import { writeWithCompanion } from '../../src/base/folder-lock.js';
import { scratchFolder } from '../support/fixtures.js';

const bytes = (text: string): Buffer => Buffer.from(text);
const textOf = (path: string): string | null => (existsSync(path) ? readFileSync(path, 'utf8') : null);

it('removes the old model before its sidecar changes, and names the new model last', async () => {
  const folder = scratchFolder();
  const [model, sidecar, probe] = ['model', 'sidecar', 'probe'].map((name) => join(folder, name));
  const write = (text: string): Promise<void> =>
    writeWithCompanion(probe!, bytes(text), true, () =>
      writeWithCompanion(sidecar!, bytes(text), true, () => writeAtomically(model!, bytes(text))),
    );
  const states = (): (string | null)[] => [model!, sidecar!, probe!].map(textOf);
  await write('old');
  expect(states()).toEqual(['old', 'old', 'old']);
  let atFirst: (string | null)[] = [];
  const look = (): Promise<void> => Promise.resolve(void (atFirst = states()));
  await writeAfter(look, () => write('new'));
  expect(atFirst).toEqual([null, null, 'old']);
  expect(states()).toEqual(['new', 'new', 'new']);
  const failing = writeWithCompanion(sidecar!, bytes('third'), true, () =>
    writeAtomically(model!, () => Promise.reject(new Error('disk'))),
  );
  await expect(failing).rejects.toThrow('disk');
  expect(states()).toEqual(['new', 'new', 'new']);
  const unchanged = writeWithCompanion(sidecar!, bytes('fourth'), false, () => write('fourth'));
  await expect(unchanged).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
  expect(readdirSync(folder).toSorted()).toEqual(['model', 'probe', 'sidecar']);
});
