/** The linter and the formatter see every source file: an ignore pattern such as `build` also hides a room of that name. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { getFileInfo } from 'prettier';
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

const ROOMS = ['src', 'test', 'bench', 'examples', 'models', 'scripts'];

function sourceFiles(room: string): string[] {
  return readdirSync(projectPath(room), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.[cm]?[jt]sx?$/.test(file) && !file.includes('node_modules'))
    .map((file) => projectPath(`${room}/${file}`));
}

describe('every source file', () => {
  it.each(ROOMS)('of %s is formatted', async (room) => {
    const paths = sourceFiles(room);
    const ignorePath = projectPath('.prettierignore');
    const infos = await Promise.all(paths.map((path) => getFileInfo(path, { ignorePath })));
    const unseen = paths.filter((_, i) => infos[i]!.ignored || infos[i]!.inferredParser === null);
    expect(paths.length).toBeGreaterThan(0);
    expect(unseen).toEqual([]);
  });

  it.each(ROOMS)('of %s is linted', (room) => {
    const { stdout } = spawnSync(
      process.execPath,
      [projectPath('node_modules/oxlint/bin/oxlint'), '--format', 'json', room],
      { cwd: projectPath('.'), encoding: 'utf8', maxBuffer: 2 ** 26 },
    );
    const { number_of_files: linted } = JSON.parse(stdout) as { number_of_files: number };
    expect(linted).toBe(sourceFiles(room).length);
  });
});
