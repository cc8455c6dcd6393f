import { mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  AtomicFile,
  copyAtomically,
  freeBytes,
  haveSameBytes,
  publish,
  removeLeftovers,
  unwritable,
  writeAtomically,
} from '../../src/base/atomic-file.js';
import { scratchFolder } from '../support/fixtures.js';

const scratch = scratchFolder();
let count = 0;

function emptyFolder(): string {
  const folder = join(scratch, String(count++));
  mkdirSync(folder);
  return folder;
}

const text = (content: string): Uint8Array => Buffer.from(content);

describe('AtomicFile', () => {
  it('appears under its name when it is finished, and not before', async () => {
    const folder = emptyFolder();
    const file = await AtomicFile.create(join(folder, 'a'));
    await file.append(text('hello'));
    await file.overwrite(0, text('J'));
    expect(file.size).toBe(5);
    expect(readdirSync(folder)).toEqual([basename(file.temporary)]);
    await file.finish();
    await file.discard();
    expect(readdirSync(folder)).toEqual(['a']);
    expect(readFileSync(file.path, 'utf8')).toBe('Jello');
  });

  it('touches neither a file nor a link of the user beside it', async () => {
    const folder = emptyFolder();
    writeFileSync(join(folder, 'a.partial'), 'my own notes');
    writeFileSync(join(folder, 'victim'), 'mine');
    symlinkSync('victim', join(folder, 'b.partial'));
    for (const name of ['a', 'b']) await writeAtomically(join(folder, name), text('new'));
    expect(readFileSync(join(folder, 'a.partial'), 'utf8')).toBe('my own notes');
    expect(readFileSync(join(folder, 'victim'), 'utf8')).toBe('mine');
    expect(readdirSync(folder).toSorted()).toEqual(['a', 'a.partial', 'b', 'b.partial', 'victim']);
  });

  it('removes what killed processes left more than a day ago, and nothing else', async () => {
    const folder = emptyFolder();
    const [old, recent, other] = [
      '.tapir-1-00000000.partial',
      '.tapir-1-0000000f.partial',
      '.tapir-x.partial',
    ];
    for (const name of [old, recent, other]) writeFileSync(join(folder, name), '');
    for (const name of [old, other]) utimesSync(join(folder, name), 1, Date.now() / 1000 - 86_500);
    await writeAtomically(join(folder, 'a'), text('x'));
    expect(readdirSync(folder).toSorted()).toEqual([recent, other, 'a']);
    await removeLeftovers(folder, 0);
    expect(readdirSync(folder).toSorted()).toEqual([other, 'a']);
  });

  it('can be paused and resumed', async () => {
    const path = join(emptyFolder(), 'a');
    const first = await AtomicFile.resume(path, 0);
    await first.append(text('hello'));
    await first.pause();
    const second = await AtomicFile.resume(path, 4);
    await second.append(text('!'));
    await second.pause();
    await publish(`${path}.partial`, path);
    expect(readFileSync(path, 'utf8')).toBe('hell!');
  });

  it('does not resume what a link leads to', async () => {
    const folder = emptyFolder();
    writeFileSync(join(folder, 'victim'), 'mine');
    symlinkSync('victim', join(folder, 'a.partial'));
    for (const offset of [0, 2])
      await expect(AtomicFile.resume(join(folder, 'a'), offset)).rejects.toMatchObject({
        code: 'OUTPUT_UNWRITABLE',
      });
    expect(readFileSync(join(folder, 'victim'), 'utf8')).toBe('mine');
  });

  it('gives one whole file of several writers', async () => {
    const folder = emptyFolder();
    const path = join(folder, 'a');
    const files = await Promise.all(Array.from({ length: 4 }, () => AtomicFile.create(path)));
    await Promise.all(files.map((file, i) => file.append(text(String(i).repeat(1000)))));
    expect(readdirSync(folder).filter((name) => /^\.tapir-.*\.partial$/.test(name)).length).toBe(4);
    for (const file of files) await file.finish();
    expect(readFileSync(path, 'utf8')).toBe('3'.repeat(1000));
    expect(readdirSync(folder)).toEqual(['a']);
  });

  it('takes a name as long as the system allows, and none of spaces', async () => {
    const path = join(emptyFolder(), 'n'.repeat(255));
    await writeAtomically(path, text('x'));
    expect(readFileSync(path, 'utf8')).toBe('x');
    await expect(writeAtomically(join(emptyFolder(), '  '), text('x'))).rejects.toThrow(
      'its name consists of spaces',
    );
  });

  it('says why a path cannot be written, and names the path', async () => {
    const path = join(emptyFolder(), 'missing/a');
    await expect(AtomicFile.create(path)).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
      details: { path, reason: expect.stringContaining('ENOENT') },
    });
  });

  it('does not replace what is not a regular file', async () => {
    const folder = emptyFolder();
    for (const [name, make] of [
      ['folder', mkdirSync],
      ['device', (path: string) => symlinkSync('/dev/null', path)],
    ] as const) {
      const path = join(folder, name);
      make(path);
      await expect(writeAtomically(path, text('x'))).rejects.toThrow('it is not a regular file');
      await expect(copyAtomically('/dev/null', path)).rejects.toThrow('it is not a regular file');
    }
    expect(readdirSync(folder).toSorted()).toEqual(['device', 'folder']);
  });
});

describe('writeAtomically', () => {
  it('leaves the old file and no temporary one if the content fails', async () => {
    const folder = emptyFolder();
    const path = join(folder, 'a');
    writeFileSync(path, 'old');
    const fail = async (file: AtomicFile): Promise<void> => {
      await file.append(text('half'));
      throw new RangeError('the source failed');
    };
    await expect(writeAtomically(path, fail)).rejects.toThrow(RangeError);
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['a']);
  });
});

describe('copyAtomically', () => {
  it('copies, or leaves nothing behind', async () => {
    const folder = emptyFolder();
    writeFileSync(join(folder, 'a'), 'content');
    await copyAtomically(join(folder, 'a'), join(folder, 'b'));
    expect(readFileSync(join(folder, 'b'), 'utf8')).toBe('content');
    await expect(copyAtomically(join(folder, 'none'), join(folder, 'c'))).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
      details: { path: join(folder, 'c') },
    });
    expect(readdirSync(folder).toSorted()).toEqual(['a', 'b']);
  });
});

describe('haveSameBytes', () => {
  it('compares whole files', async () => {
    const folder = emptyFolder();
    const long = Buffer.alloc(1_100_000, 'x');
    for (const [name, content] of [
      ['a', long],
      ['b', long],
      ['c', Buffer.concat([long.subarray(1), Buffer.from('y')])],
      ['d', long.subarray(1)],
    ] as const)
      writeFileSync(join(folder, name), content);
    const compared = ['b', 'c', 'd', 'none'].map((name) =>
      haveSameBytes(join(folder, 'a'), join(folder, name)),
    );
    expect(await Promise.all(compared)).toEqual([true, false, false, false]);
  });
});

describe('unwritable', () => {
  it('says how much space a full disk has, and what to do', () => {
    const full = Object.assign(new Error('ENOSPC: write'), { code: 'ENOSPC' });
    const error = unwritable(join(scratch, 'a'), full);
    expect(error).toMatchObject({ code: 'OUTPUT_UNWRITABLE', cause: full });
    expect(error.message).toMatch(/no space left \(\d+ bytes are free\); free some space and run the same/);
    const quota = Object.assign(new Error('EDQUOT: quota exceeded'), { code: 'EDQUOT' });
    expect(unwritable('a', quota).message).toContain('quota exceeded; free some space');
    expect(unwritable('a', new Error('EACCES: no')).message).toBe('cannot write "a": EACCES: no');
    expect(unwritable('a', 'text').details.reason).toBe('text');
  });

  it('measures the space of a folder that exists', () => {
    expect(freeBytes(scratch)).toBeGreaterThan(0);
    expect(freeBytes(join(scratch, 'none'))).toBeNull();
  });
});
