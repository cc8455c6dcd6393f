/** The command on terminals of several widths: a pseudo terminal of util-linux's `script`. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runCommand } from '../../support/run.js';
import { someOf } from '../../support/rounds.js';

const folder = scratchFolder();
const model = join(folder, 'model.onnx');
writeFileSync(model, tinyResNet());

/** The lines that a terminal shows or showed: each redrawing of one counts. */
async function linesOn(columns: number, words: string): Promise<string[]> {
  const command = `stty cols ${columns}; node ${projectPath('dist/lib/bin.cjs')} ${words}`;
  const { stdout } = await runCommand('script', ['-qec', command, '/dev/null'], { cwd: folder });
  return stripVTControlCharacters(stdout)
    .split(/[\r\n]+/)
    .filter((line) => line !== '');
}

/** A path cannot be broken. */
const isTooLong = (line: string, columns: number): boolean =>
  line.length > columns && line.trim().split(' ').length > 1;

describe.skipIf(!existsSync('/usr/bin/script'))('on a terminal', () => {
  // Nine seconds: each of six commands in a terminal, which nothing else has.
  it.each(someOf([40, 60, 80, 140], 4))(
    'of %i columns, no line is broken by the terminal',
    async (columns) => {
      const embed = `embed ${projectPath('examples/photos')} --model model.onnx --return layer1=v --transform '{"resize":64,"crop":64}'`;
      const shown = await Promise.all(
        ['nodes model.onnx --depth 1', 'doctor', `${embed} --out vectors-${columns}`].map((words) =>
          linesOn(columns, words),
        ),
      );
      const vectors = `vectors-${columns}`;
      const used = await Promise.all(
        [
          `probe ${vectors} --labels by-folder`,
          `search ${vectors} ${projectPath('examples/photos/flower/flower-1.jpg')} --model model.onnx`,
          `dedupe ${vectors} --cosine 0.9`,
        ].map((words) => linesOn(columns, words)),
      );
      for (const lines of [...shown, ...used]) {
        expect(lines.join('\n')).toMatch(/layer1|onnxruntime|24 images|accuracy|rank|cosine/);
        expect(lines.filter((line) => isTooLong(line, columns))).toEqual([]);
      }
    },
  );

  it('the list of commands fits 80 columns, a line each', async () => {
    const lines = await linesOn(80, '');
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    expect(lines.filter((line) => /^ {2}[a-z-]+ {2}/.test(line))).toHaveLength(23);
  });
});
