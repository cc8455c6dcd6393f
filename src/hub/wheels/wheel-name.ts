/** The names of wheels (PEP 427), and the platforms that they say. */
import { release } from 'node:os';
import { readGlibcVersion } from '../../base/glibc-version.js';

/** The parts of a wheel's name: `openvino-2026.4.1-22982-cp312-cp312-manylinux_2_28_x86_64.whl`. */
export interface WheelName {
  /** Normalised, as on the index: `nvidia-cublas-cu12`. */
  readonly project: string;
  readonly version: string;
  /** The leading digits of the build tag; 0 without one. */
  readonly build: number;
  readonly python: string;
  readonly abi: string;
  readonly platforms: readonly string[];
}

/** What decides whether shared libraries load. */
export interface Platform {
  readonly system: NodeJS.Platform;
  readonly arch: string;
  /** Version of glibc; null on other systems, and on Linux with another C library. */
  readonly glibc: string | null;
  /** Version of the kernel. On macOS, the version of the system follows from it. */
  readonly kernel: string;
}

export function readPlatform(): Platform {
  const { platform: system, arch } = process;
  return { system, arch, glibc: system === 'linux' ? readGlibcVersion() : null, kernel: release() };
}

/** Describes a platform for a message: `linux x64, glibc 2.36`. */
export function describePlatform({ system, arch, glibc }: Platform): string {
  const libc = system === 'linux' ? `, ${glibc === null ? 'without glibc' : `glibc ${glibc}`}` : '';
  return `${system} ${arch}${libc}`;
}

/** Returns the name of a project as indexes spell it (PEP 503). */
export function normalizeProject(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, '-');
}

/** Reads the name of a wheel; undefined for other files. */
export function parseWheelName(filename: string): WheelName | undefined {
  const parts = /^([\w.]+)-([\w.!+]+)(?:-(\d+)\w*)?-([\w.]+)-([\w.]+)-([\w.]+)\.whl$/.exec(filename);
  if (!parts) return undefined;
  const [, project = '', version = '', build = '0', python = '', abi = '', tags = ''] = parts;
  const platforms = tags.split('.');
  return { project: normalizeProject(project), version, build: Number(build), python, abi, platforms };
}

/**
 * Chooses a wheel whose libraries load on a platform. The Python version does not matter for them, but the choice must always be
 * the same: the latest build; then the newest Python with the usual threads (`cp314`, not `cp314t`).
 */
export function chooseWheel<Wheel extends { readonly filename: string; readonly name: WheelName }>(
  wheels: readonly Wheel[],
  platform: Platform,
): Wheel | undefined {
  const fitting = wheels.filter(({ name }) => name.platforms.some((tag) => fitsPlatform(tag, platform)));
  const [best] = fitting.toSorted(
    (a, b) =>
      b.name.build - a.name.build ||
      Number(isPlain(b.name)) - Number(isPlain(a.name)) ||
      minorOf(b.name) - minorOf(a.name) ||
      (a.filename < b.filename ? -1 : 1),
  );
  return best;
}

function isPlain({ abi }: WheelName): boolean {
  return !/^cp\d+[a-z]/.test(abi);
}

function minorOf({ python }: WheelName): number {
  return Number(/^cp3(\d+)$/.exec(python)?.[1] ?? 0);
}

/** The glibc versions that older tags mean. */
const OLD_TAGS: Readonly<Record<string, string>> = {
  manylinux1: 'manylinux_2_5',
  manylinux2010: 'manylinux_2_12',
  manylinux2014: 'manylinux_2_17',
};
const ARCHES: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  linux: { x64: ['x86_64'], arm64: ['aarch64'] },
  darwin: { x64: ['x86_64', 'universal2'], arm64: ['arm64', 'universal2'] },
  win32: { x64: ['amd64'], arm64: ['arm64'] },
};

/** Whether libraries with a platform tag load on a platform. Tags for musl, and Linux tags without a glibc version, never fit. */
export function fitsPlatform(tag: string, { system, arch, glibc, kernel }: Platform): boolean {
  const suffix = ARCHES[system]?.[arch]?.find((one) => tag.endsWith(`_${one}`));
  if (suffix === undefined) return false;
  const stem = tag.slice(0, -suffix.length - 1);
  if (system === 'win32') return stem === 'win';
  const version = /^(manylinux|macosx)_(\d+)_(\d+)$/.exec(OLD_TAGS[stem] ?? stem);
  if (version?.[1] !== (system === 'linux' ? 'manylinux' : 'macosx')) return false;
  const needed = [Number(version[2]), Number(version[3])] as const;
  return isAtLeast(system === 'linux' ? glibc : macosVersion(kernel), needed);
}

function isAtLeast(version: string | null, [major, minor]: readonly [number, number]): boolean {
  if (version === null) return false;
  const [ours = 0, oursMinor = 0] = version.split('.').map(Number);
  return ours > major || (ours === major && oursMinor >= minor);
}

/** Kernel 20 belongs to macOS 11, 24 to macOS 15, and 25 to macOS 26. It does not tell the minor version. */
function macosVersion(kernel: string): string {
  const major = Number.parseInt(kernel, 10);
  return `${major < 25 ? major - 9 : major + 1}.99`;
}
