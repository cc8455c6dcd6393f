/** `--header-file FILE`: headers of requests for photos. A file, because arguments of a command are seen by all who use the machine. */
import { readFileSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import type { Fields } from '../../base/options.js';
import { SOURCE_FIELDS, type SourceOptions } from '../../photos/feeds/items/source-options.js';
import { addFlags } from './option-flags.js';
import { rare } from './rare.js';

export const HEADER_FLAG = '--header-file';
/** Servers take some kilobytes of headers. */
const MOST_BYTES = 2 ** 20;
const LINE = /^([^\s:]+):[\t ]*(.*?)[\t ]*$/;

const FIELDS: Fields<Pick<SourceOptions, 'headers'>> = {
  headers: {
    ...SOURCE_FIELDS.headers,
    about:
      'file of headers for requests, a line "Name: value" each; a URL’s own server gets them; they are stored nowhere',
    reads: readHeaderFile,
  },
};

export function addHeaderFlag(command: Command): Command {
  return addFlags(command, FIELDS, { headers: rare(`${HEADER_FLAG} <file>`) });
}

/** The headers of a file, by name. Throws `OPTION_INVALID`, which shows neither a line nor the path: either may be a secret. */
function readHeaderFile(file: string): Readonly<Record<string, string>> {
  const headers = new Map<string, string>();
  for (const [at, line] of readText(file).trimEnd().split(/\r?\n/).entries()) {
    if (line === '') continue;
    const [, name, value] = LINE.exec(line) ?? [];
    if (name === undefined) throw refuse(`lines "Name: value" (line ${at + 1} is none)`);
    if (headers.has(name)) throw refuse(`a header once (line ${at + 1} repeats one)`);
    headers.set(name, value!);
  }
  return Object.fromEntries(headers);
}

function readText(file: string): string {
  try {
    const stats = statSync(file);
    if (!stats.isFile()) throw refuse('a regular file');
    if (stats.size > MOST_BYTES) throw refuse(`a file of at most ${MOST_BYTES} bytes`);
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw code === 'OPTION_INVALID' ? error : refuse(`a file that can be read (${code})`);
  }
}

function refuse(expected: string): Error {
  return invalidOption(HEADER_FLAG, expected, undefined);
}
