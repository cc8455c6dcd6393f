/** What runs on one system only has a twin on the others, and each platform that CI runs on has its binaries in the lock file. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

const SRC = projectPath('src');
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => path.replaceAll('\\', '/'))
  .map((path): [path: string, text: string] => [path, readFileSync(join(SRC, path), 'utf8')]);

/**
 * Calls that work on some systems only or differ between them: the files that have them, and what happens elsewhere. A new file needs a
 * twin, and a line here.
 */
const CALLS: readonly {
  readonly what: string;
  readonly call: RegExp;
  readonly twins: Readonly<Record<string, string>>;
}[] = [
  {
    what: 'signals to other processes',
    call: /process\.kill\(|\.kill\('?SIG/,
    twins: {
      'base/process-identity.ts': 'signal 0 asks whether a process runs; Node has it on Windows',
      'cli/terminal/signal-thread.ts': 'runs on Linux and macOS only, see below',
      'run/runtime/devices/nvidia-smi.ts': 'SIGKILL ends a process on Windows as well',
      'run/runtime/devices/probe.ts': 'SIGKILL ends a process on Windows as well',
      'run/runtime/lanes/lane-start.ts': 'SIGKILL ends a process on Windows as well',
    },
  },
  {
    what: 'signals that arrive',
    call: /\bsigaction\b|process\.on\((?:name|'SIG)/,
    twins: {
      'cli/terminal/signal-watch.ts':
        'a thread with sigaction on Linux and macOS; elsewhere signals are heard between two steps',
      'cli/terminal/signal-thread.ts': 'started by signal-watch.ts only where it knows the layout',
    },
  },
  {
    what: 'links',
    call: /\b(?:symlink|link)\(/,
    twins: {
      'base/folder-lock.ts': 'a file system without links gets a file that must not exist',
      'learn/hub/hub-cache.ts':
        'a system without links moves or copies the blob, and has a method of this name',
      'learn/hub/pull-repository.ts': 'the method of hub-cache.ts',
      'run/runtime/devices/installed-cuda.ts': 'CUDA is installed on Linux only',
    },
  },
  {
    what: 'names brought to disk',
    call: /\bsyncFolder\(|\.sync\(\)|\.datasync\(/,
    twins: {
      'base/atomic-file.ts': 'folders that cannot be synced (Windows) are left out by their error codes',
      'datasets/files/journal.ts': 'the file itself, which every system syncs',
    },
  },
  {
    what: 'users and permissions',
    call: /\b(?:getuid|geteuid|chmod|chown|umask)\b/,
    twins: {
      'base/atomic-file.ts': 'no user number (Windows): every leftover counts as own',
      'base/temporary-folder.ts': 'no user number (Windows): every leftover counts as own',
    },
  },
  {
    what: 'files of Linux',
    call: /['`]\/(?:proc|sys|dev|etc|run)\//,
    twins: {
      'base/process-identity.ts': 'null elsewhere: the process number alone tells',
      'run/runtime/cpu-features.ts': 'empty elsewhere',
    },
  },
  {
    what: 'limits of a shell',
    call: /\bulimit\b/,
    twins: { 'base/machine-failure.ts': 'words of an error that names the code' },
  },
  {
    what: 'memory maps and loaders of the C library',
    call: /\b(?:mmap|munmap|dlopen|RTLD_\w+)\b/,
    twins: {
      'run/runtime/engines/native/map-file.ts': 'the file is read whole elsewhere',
      'run/runtime/devices/shared-library.ts': 'the flag of macOS is another one; Windows ignores it',
    },
  },
];

describe('what one system has', () => {
  it.each(CALLS)('$what', ({ call, twins }) => {
    // Without comments, which may name what is not called.
    const found = files.filter(([, text]) => call.test(text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')));
    expect(found.map(([path]) => path).toSorted()).toEqual(Object.keys(twins).toSorted());
  });
});

describe('the lock file', () => {
  const { packages } = JSON.parse(readFileSync(projectPath('package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<
      Record<string, { readonly version: string; readonly integrity?: string; readonly optional?: boolean }>
    >;
  };
  const workflow = readFileSync(projectPath('.github/workflows/platforms.yml'), 'utf8');

  it.each([
    ['linux', 'x64', undefined],
    ['linux', 'arm64', 'ubuntu-24.04-arm'],
    ['darwin', 'arm64', 'macos-15'],
    ['win32', 'x64', 'windows-2025'],
  ])('has the binaries for %s %s', (system, arch, runner) => {
    for (const name of [`@img/sharp-${system}-${arch}`, `@koromix/koffi-${system}-${arch}`]) {
      const entry = packages[`node_modules/${name}`];
      expect(entry, name).toMatchObject({ optional: true });
      expect(entry!.integrity, name).toMatch(/^sha512-/);
    }
    // onnxruntime-node brings all of them in one package.
    const binding = projectPath(`node_modules/onnxruntime-node/bin/napi-v6/${system}/${arch}`);
    expect(readdirSync(binding)).toContain('onnxruntime_binding.node');
    if (runner !== undefined) expect(workflow).toContain(runner);
  });

  it('has one version of each family of binaries', () => {
    for (const family of ['@img/sharp-(?!libvips)', '@img/sharp-libvips-', '@koromix/koffi-']) {
      const names = Object.keys(packages).filter((name) =>
        new RegExp(`^node_modules/${family}[^/]*$`).test(name),
      );
      expect(names.length).toBeGreaterThan(5);
      expect(new Set(names.map((name) => packages[name]!.version)).size, family).toBe(1);
    }
  });
});
