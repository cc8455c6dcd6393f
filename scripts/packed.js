/** The packed package in an empty folder, installed as a careful user does it: no install script runs, and each package must allow this Node. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const project = fileURLToPath(new URL('..', import.meta.url));
export const photos = join(project, 'examples/photos');

/** Packs the package. Needs the npm registry (npm's cache where that holds the packages). */
export function pack() {
  const folder = mkdtempSync(join(tmpdir(), 'tapir-package-'));
  const run = (command, args, options = {}) =>
    execFileSync(command, args, {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      ...options,
      env: {
        ...process.env,
        npm_config_loglevel: 'error',
        npm_config_ignore_scripts: 'true',
        npm_config_engine_strict: 'true',
        ...options.env,
      },
    });
  run('npm', ['pack', '--pack-destination', folder], { cwd: project });
  const tarball = join(
    folder,
    readdirSync(folder).find((file) => file.endsWith('.tgz')),
  );
  return {
    folder,
    tarball,
    run,
    /** Runs the command of an installed package. */
    tool: (name, args, options) => run(join(folder, 'node_modules/.bin', name), args, options),
    /** Runs a script in this Node. */
    node: (...args) => run(process.execPath, args).trim(),
    install: (...packages) => {
      writeFileSync(join(folder, 'package.json'), '{"name":"consumer","private":true,"type":"module"}');
      run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', tarball, ...packages]);
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export function check(condition, what) {
  if (!condition) throw new Error(`check of the package failed: ${what}`);
  console.log(`ok  ${what}`);
}
