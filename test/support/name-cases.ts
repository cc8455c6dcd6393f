/**
 * Every function that makes or reads names of files, on 10,000 random paths: none leaves its folder, and none takes the place of another
 * without an error. The tests run it with the paths of POSIX and of Windows.
 */
import path from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { modulesOf } from './name-modules.js';

export const PATHS = 10_000;

/** Parts that mean something somewhere: to shells, to Windows, to URLs, to the length limits of file systems. */
const PARTS = [
  ['', '.', '..', '...', '. ', '.. ', ' ', 'a', 'A', 'ä', 'a\u0308', 'İ', 'a.', 'a ', 'b.onnx', 'B.ONNX'],
  ['con', 'NUL', 'nul.txt', 'aux .onnx', 'COM1', 'com¹', 'lpt9.bin', 'CONIN$', 'con.', 'x:y', 'C:', 'c:a'],
  ['~', '-', '--', '*', '?', '"', '<', '|', '\0', '\n', '\u202e', '%2e%2e', '%2F', '%', '\ud800', '😀'],
  [
    'x'.repeat(255),
    'y'.repeat(300),
    '\\\\?\\C:',
    '\\\\server\\share',
    '\\..\\..',
    '\\',
    '$(x)',
    '`x`',
    '#',
    '@',
  ],
].flat();
const part = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...PARTS) },
  fc.string({ maxLength: 12 }),
  fc.string({ unit: 'binary', maxLength: 6 }),
);
/** Random paths, relative and absolute, with both separators. */
export const paths: fc.Arbitrary<string> = fc
  .tuple(
    fc.constantFrom('', '', '', '/', '\\', 'C:\\', '//h/s/', 'file:///', '../'),
    fc.array(part, { minLength: 1, maxLength: 5 }),
    fc.constantFrom('/', '/', '\\'),
  )
  .map(([start, parts, separator]) => start + parts.join(separator));

/** A file system that does not tell upper from lower case, drops dots and spaces at the end, and opens devices by their names. */
const asWindowsOpens = (file: string): string =>
  file
    .split(/[\\/]/)
    .map((name) => name.replace(/[. ]+$/, ''))
    .join('\\')
    .normalize('NFC')
    .toLowerCase();
const DEVICE = /^(?:con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$) *(?:[.:]|$)/i;

/** Throws unless something holds: cheaper than `expect` in so many rounds. */
function hold(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(`does not hold: ${JSON.stringify(what)}`);
}

/** Holds if a file lies below a folder, for this system and as Windows opens it, and no part of it is a device. */
function expectInside(folder: string, file: string): void {
  const inner = path.relative(path.resolve(folder), path.resolve(file));
  hold(inner !== '' && !path.isAbsolute(inner), `${file} in ${folder}`);
  for (const name of inner.split(/[\\/]/)) {
    hold(name.replace(/[. ]+$/, '') !== '', `${file}: ${name} is a name`);
    hold(!DEVICE.test(name), `${file}: ${name} is no device`);
    // oxlint-disable-next-line no-control-regex
    hold(!/[:*?"<>|\u0000-\u001f]/.test(name), `${file}: ${name} can be a name`);
  }
}

/** Expects that a name which is there already has the same source. */
class Taken {
  readonly #by = new Map<string, string>();
  add(file: string, source: string): void {
    const opened = asWindowsOpens(file);
    hold((this.#by.get(opened) ?? source) === source, `${file} is that of ${source} only`);
    this.#by.set(opened, source);
  }
  get size(): number {
    return this.#by.size;
  }
}

/** The same paths for each function. */
function eachPath(check: (given: string, at: number) => void): void {
  for (const [at, given] of fc.sample(paths, { numRuns: PATHS, seed: 50 }).entries()) check(given, at);
}

/** The tests. */
export function testNames(system: 'posix' | 'win32'): void {
  const root = system === 'win32' ? 'C:\\data\\set' : '/data/set';
  const m = modulesOf();

  it('runs with the paths of the system that it says', () => {
    expect(path.sep).toBe(system === 'win32' ? '\\' : '/');
    expect(m.liesInside(root, path.join(root, 'a'))).toBe(true);
    expect(m.liesInside(root, path.join(root, '..', 'b'))).toBe(false);
    if (system === 'win32') expect(m.liesInside(root, 'D:\\data\\set\\a')).toBe(false);
  });

  it('folders of outputs', () => {
    eachPath((key) => {
      // Requests have no empty keys.
      if (key === '') return;
      const file = m.featurePath(m.folderName(key), 3, 'npy');
      expectInside(root, path.join(root, ...file.split('/')));
      hold(m.isShardFile(file), `${file} is known`);
      hold(m.staysInside(file), `${file} is read again`);
    });
    expect(m.folderName('nul.x.')).toBe('%6Eul.x%2E');
  });

  it('pairs of folders of outputs', () => {
    const folders = new Map<string, string>();
    let pairs = 0;
    eachPath((key) => {
      // A lone surrogate and U+FFFD are one byte sequence, so one key.
      const read = Buffer.from(key).toString();
      const folder = m.folderName(key).toLowerCase();
      const other = folders.get(folder);
      if (other !== undefined && other !== read) {
        expect(() => m.folderNames([other, read])).toThrow(/differ by more than case/);
        pairs++;
      }
      folders.set(folder, read);
    });
    expect(pairs + folders.size).toBeGreaterThan(PATHS / 2);
  });

  it('paths in manifests', () => {
    let inside = 0;
    eachPath((given) => {
      if (!m.staysInside(given)) return;
      inside++;
      expectInside(root, path.join(root, given));
    });
    expect(inside).toBeGreaterThan(50);
  });

  it('files of the hub in the shared cache, and names of repositories', () => {
    const taken = new Taken();
    let [files, revisions] = [0, 0];
    const cache = new m.CachedRepository(root, 'org/repo');
    const commit = 'c'.repeat(40);
    eachPath((given) => {
      if (m.isRelativePath(given)) {
        expectInside(path.join(cache.folder, 'snapshots', commit), cache.file(commit, given));
        // Files of one repository that differ by case only are refused when they are pulled.
        if (m.firstAlike([given.toLowerCase(), given]) === undefined)
          taken.add(cache.file(commit, given), given.normalize('NFC').toLowerCase());
        files++;
      }
      for (const text of [`hf:${given}`, `hf:a/b@${given}`, `hf:a/b#${given}`] as const) {
        let read;
        try {
          read = m.parseRepositoryReference(text);
        } catch (error) {
          expect(error).toMatchObject({ code: 'OPTION_INVALID' });
          continue;
        }
        const own = new m.CachedRepository(root, read.repository);
        expectInside(root, own.folder);
        expectInside(root, path.join(own.folder, 'refs', ...read.revision.split('/')));
        if (read.file !== undefined) expectInside(own.folder, own.file(commit, read.file));
        revisions++;
      }
    });
    expect(files).toBeGreaterThan(50);
    expect(revisions).toBeGreaterThan(50);
    expect(m.firstAlike(['a/B', 'c', 'a/b'])).toBe('a/b');
    expect(m.firstAlike(['a', 'a', 'b'])).toBeUndefined();
  });

  it('files that are copied beside a model', () => {
    let placed = 0;
    eachPath((given) => {
      for (const model of ['model.onnx', 'onnx/model.onnx']) {
        const at = m.isRelativePath(given) ? m.placeBeside(model, given) : undefined;
        if (at === undefined) continue;
        expectInside(root, path.join(root, at));
        placed++;
      }
    });
    expect(placed).toBeGreaterThan(50);
    expect(m.placeBeside('onnx/model.onnx', 'onnx/w/x.bin')).toBe('w/x.bin');
    expect(m.placeBeside('a/b/model.onnx', 'x.bin')).toBeUndefined();
  });

  it('files of wheels', () => {
    const places = [...m.WHEEL_CONTENTS.values()];
    const seen = new Set<string>();
    eachPath((given) => {
      const leaf = given.split('/').at(-1)!;
      for (const name of [
        given,
        `onnxruntime_ep_webgpu/${leaf}`,
        `onnxruntime_ep_webgpu/${leaf}.so`,
        `x.dist-info/LICENSE${leaf}`,
      ])
        for (const { place } of places) {
          const target = m.isRelativePath(name) ? place(name) : undefined;
          if (target === undefined || seen.has(target)) continue;
          seen.add(target);
          expectInside(root, path.join(root, ...target.split('/')));
        }
    });
    expect(seen.size).toBeGreaterThan(50);
  });

  it('weights of a model beside it', () => {
    let refused = 0;
    eachPath((given) => {
      // Without a folder, nothing is looked up: what climbs or is absolute is refused by its text.
      let error: unknown;
      try {
        m.checkExternalLocations([{ name: 'w', location: given }] as never, undefined);
      } catch (caught) {
        error = caught;
      }
      if (error) {
        expect(error).toMatchObject({ code: 'EXTERNAL_DATA_UNSAFE' });
        refused++;
        return;
      }
      const inner = path.relative(root, path.resolve(m.locateExternal(root, given)));
      hold(inner.split(path.sep)[0] !== '..' && !path.isAbsolute(inner), given);
    });
    expect(refused).toBeGreaterThan(PATHS / 10);
    expect(refused).toBeLessThan(PATHS);
  });

  it('photos that a page shows', () => {
    let inside = 0;
    eachPath((given) => {
      const file = m.pathInside(root, given);
      if (file === undefined) return;
      inside++;
      hold(m.liesInside(path.resolve(root), file), given);
      hold(!path.relative(root, file).split(path.sep).includes('..'), given);
    });
    expect(inside).toBeGreaterThan(PATHS / 10);
  });

  it('masks of several photos', () => {
    let refused = 0;
    const all = fc.sample(paths, { numRuns: PATHS, seed: 51 });
    for (let at = 0; at + 1 < all.length; at += 2) {
      const photos = all.slice(at, at + 2);
      let targets;
      try {
        targets = m.targetsOf(photos, path.join(root, 'mask.png'));
      } catch (error) {
        expect(error).toMatchObject({ code: 'OPTION_INVALID' });
        refused++;
        continue;
      }
      for (const target of targets) hold(path.dirname(target) === root, target);
      hold(targets[0]!.toLowerCase() !== targets[1]!.toLowerCase(), targets[0]!);
    }
    expect(refused).toBeGreaterThan(10);
  });

  it('names in archives are only names, and entries of lists are read where the list says', () => {
    let images = 0;
    eachPath((given) => {
      const unread = { add: () => undefined } as never;
      const entry = m.nameEntry(Buffer.from(`${given}.jpg`), 'a.tar/', unread);
      images++;
      hold(entry!.path.startsWith('a.tar/') && !entry!.path.includes('\0'), given);
      if (/^https?:\/\//i.test(given)) return;
      const { path: named, image } = m.itemOfEntry(given, { base: root, allowHttp: false } as never);
      hold(named === given, given);
      hold(image === (path.isAbsolute(given) ? given : `${root}${path.sep}${given}`), given);
    });
    expect(images).toBe(PATHS);
  });

  it('file: URLs', () => {
    let [read, refused] = [0, 0];
    eachPath((given) => {
      const text = given.startsWith('file:') ? given : `file:///${given.replaceAll('\\', '/')}`;
      if (!URL.canParse(text)) return;
      const url = new URL(text);
      let place;
      try {
        place = m.checkPath('path', url);
      } catch (error) {
        expect(error).toMatchObject({ code: 'OPTION_INVALID' });
        refused++;
        return;
      }
      read++;
      // Node reads `file:///c:a` as a path from where drive C is.
      hold(path.isAbsolute(place) || /^[a-z]:/i.test(place), text);
      // A URL has no `..` left, and an escaped separator is refused.
      hold(!place.split(path.sep).includes('..'), text);
    });
    expect(read + refused).toBeGreaterThan(PATHS / 2);
    expect(refused).toBeGreaterThan(10);
  });
}
