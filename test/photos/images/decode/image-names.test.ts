import { afterEach, describe, expect, it, vi } from 'vitest';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import {
  extensionOf,
  isImageName,
  kindOfName,
  unreadAdvice,
} from '../../../../src/photos/images/decode/image-names.js';
import { LIBHEIF_VERSION } from '../../../../src/photos/images/decode/open-libheif.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { packageRequire } from '../../../../src/base/package.js';
import { fixturePath, projectPath } from '../../../support/fixtures.js';
import { readFileSync } from 'node:fs';

describe('kindOfName', () => {
  it('tells images that are read from those that are not, and from other files', () => {
    for (const name of ['a.jpg', 'b/c.PNG', 'x.dib', 'a.heic', 'A.HEIF'])
      expect(kindOfName(name), name).toBe('image');
    for (const name of [
      'a.svg',
      'a.JXL',
      'IMG_1.CR2',
      'a.cr3',
      'a.nef',
      'a.arw',
      'a.dng',
      'a.orf',
      'a.rw2',
      'a.raf',
      'a.MP4',
      'a.mov',
      'a.pdf',
    ])
      expect(kindOfName(name), name).toBe('unread');
    for (const name of ['a.txt', 'a.ts', 'jpg', '', 'heic', 'a.heic.zip'])
      expect(kindOfName(name), name).toBe('other');
    expect(isImageName('a.svg')).toBe(false);
    expect(extensionOf('a.b/IMG.Heic')).toBe('.heic');
  });
});

describe('without libheif-js', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });

  /** Modules that have not looked for libheif-js yet, and that do not find it, or find another version. */
  async function freshModules(version?: string) {
    vi.resetModules();
    const base = await import('../../../../src/base/package.js');
    const real = base.packageRequire;
    const fake = Object.assign(
      (name: string): unknown =>
        name === 'libheif-js/package.json' && version ? { version } : (real(name) as unknown),
      {
        resolve: (name: string): string => {
          if (name.startsWith('libheif-js') && !version) throw new Error(`Cannot find module '${name}'`);
          return real.resolve(name);
        },
      },
    );
    vi.doMock('../../../../src/base/package.js', () => ({ ...base, packageRequire: fake }));
    const names = await import('../../../../src/photos/images/decode/image-names.js');
    const decoder = await import('../../../../src/photos/images/decode/decode.js');
    vi.doUnmock('../../../../src/base/package.js');
    return { ...names, ...decoder };
  }

  it('counts HEIF among the files that are not read, and says what to install', async () => {
    const { kindOfName: kind, decodeImage: decode } = await freshModules();
    expect(kind('a.heic')).toBe('unread');
    expect(kind('a.heif')).toBe('unread');
    expect(kind('a.jpg')).toBe('image');
    await expect(
      decode(fixturePath('heic/images/plain_160x120.heic'), TRANSFORM_PRESETS.ImageNet1K_V1),
    ).rejects.toMatchObject({
      code: 'IMAGE_UNREADABLE',
      message: expect.stringContaining(`npm install libheif-js@${LIBHEIF_VERSION}`),
    });
  });

  it('refuses a version whose pixels are not known', async () => {
    const { kindOfName: kind, decodeImage: decode } = await freshModules('9.0.0');
    expect(kind('a.heic')).toBe('image');
    await expect(
      decode(fixturePath('heic/images/plain_160x120.heic'), TRANSFORM_PRESETS.ImageNet1K_V1),
    ).rejects.toThrow(/libheif-js 9\.0\.0 is installed; to read it, install .*libheif-js@/);
  });

  it('says what to do with other files', () => {
    expect(unreadAdvice('.heic')).toContain('npm install libheif-js@');
    expect(unreadAdvice('.svg')).toContain('convert them to PNG or JPEG');
  });
});

it('the version that is checked is the one that package.json asks for', async () => {
  const own = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as Record<
    string,
    Record<string, unknown>
  >;
  expect(own['peerDependencies']!['libheif-js']).toBe(LIBHEIF_VERSION);
  expect(own['peerDependenciesMeta']!['libheif-js']).toEqual({ optional: true });
  expect((packageRequire('libheif-js/package.json') as { version: string }).version).toBe(LIBHEIF_VERSION);
  await expect(
    decodeImage(fixturePath('heic/images/plain_160x120.heic'), TRANSFORM_PRESETS.ImageNet1K_V1),
  ).resolves.toBeDefined();
});
