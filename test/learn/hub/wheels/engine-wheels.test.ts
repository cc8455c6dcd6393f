/** The table of wheels against the pinned packages. */
import { expect, it } from 'vitest';
import { ENGINE_PACKAGES, startOfWheel } from '../../../../src/base/engine-packages.js';
import { ENGINE_WHEELS } from '../../../../src/learn/hub/wheels/engine-wheels.js';

const ENDS: Readonly<Record<string, RegExp>> = {
  'linux x64': /manylinux\w+_x86_64\.whl$/,
  'linux arm64': /manylinux\w+_aarch64\.whl$/,
  'darwin arm64': /macosx_1[14]_0_(?:arm64|universal2)\.whl$/,
  'win32 x64': /win_amd64\.whl$/,
};
const packages = Object.values(ENGINE_PACKAGES).flatMap((bundle) =>
  bundle.packages.flatMap((one) => Object.keys(bundle.systems).map((system) => ({ one, system, bundle }))),
);

it.each(packages)('has wheels of $one.project for $system', ({ one, system, bundle }) => {
  const wheels = ENGINE_WHEELS.get(system)!.filter(({ filename }) => filename.startsWith(startOfWheel(one)));
  expect(wheels.length).toBeGreaterThan(0);
  const glibc = bundle.systems[system];
  for (const { filename, sha256 } of wheels) {
    expect(filename).toMatch(ENDS[system]!);
    expect(sha256).toMatch(/^[\da-f]{64}$/);
    // The system's glibc is late enough for each of them.
    const [, minor] = /manylinux_2_(\d+)_\w+\.whl$/.exec(filename) ?? [];
    if (minor !== undefined) expect(Number(minor)).toBeLessThanOrEqual(Number(glibc!.split('.')[1]));
  }
});

it('has no wheel twice, and none of another package', () => {
  const all = [...ENGINE_WHEELS].flatMap(([, wheels]) => wheels);
  expect(new Set(all.map(({ filename }) => filename)).size).toBe(all.length);
  const starts = packages.map(({ one }) => startOfWheel(one));
  expect(all.filter(({ filename }) => !starts.some((start) => filename.startsWith(start)))).toEqual([]);
});
