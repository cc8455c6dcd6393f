/** What the docblocks of options say is what their fields do. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Field } from '../../src/base/options.js';
import { projectPath } from '../support/fixtures.js';

const SRC = projectPath('src');

interface Documented {
  readonly doc: string;
  /** The text after `@default`. */
  readonly preset: string | undefined;
}

/** The documented fields of an interface that a file declares, by name. */
function fieldsOf(text: string, type: string): Map<string, Documented> {
  const body = new RegExp(`interface ${type}\\b[^{]*\\{\\n([\\s\\S]*?)^\\}`, 'm').exec(text)?.[1] ?? '';
  const found = body.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*readonly (\w+)\??:/g);
  return new Map(
    Array.from(found, ([, comment, name]) => {
      const doc = comment!.replace(/\n\s*\* ?/g, ' ');
      return [name!, { doc, preset: /@default (.*?)\s*$/.exec(doc)?.[1] }];
    }),
  );
}

/** The value that a docblock begins with, as in `undefined, which is the first output`; no match for words alone. */
const LITERAL = /^(undefined|true|false|-?\d[\d.e-]*|'[^']*'|\[.*?\]|\{.*?\})(?:,|$)/;

function readLiteral(text: string): unknown {
  return text === 'undefined' ? undefined : (JSON.parse(text.replaceAll("'", '"')) as unknown);
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => ({ file, text: readFileSync(join(SRC, file), 'utf8') }))
  .flatMap(({ file, text }) =>
    Array.from(text.matchAll(/export const (\w+_FIELDS): Fields<(\w+)>/g), ([, name, type]) => ({
      file,
      text,
      name: name!,
      type: type!,
    })),
  );

describe.each(files)('$name', ({ file, text, name, type }) => {
  it('has the defaults and ranges of the docblocks', async () => {
    const module = (await import(join(SRC, file))) as Record<string, Record<string, Field<unknown>>>;
    const documented = fieldsOf(text, type);
    const fields = module[name]!;
    for (const [option, { doc, preset }] of documented) {
      const { fallback, check } = fields[option]!;
      const [, literal] = LITERAL.exec(preset ?? '') ?? [];
      if (literal !== undefined) expect(readLiteral(literal), option).toEqual(fallback);
      const [, min, max] =
        /an integer from (\d+) to (\d[\d ,]*\d|\d)(?! \w+iB)/.exec(doc.replace(/ /g, ' ')) ?? [];
      if (min === undefined || max === undefined || /million/.test(doc)) continue;
      const most = Number(max.replaceAll(/[ ,]/g, ''));
      expect([check(option, Number(min)), check(option, most)], option).toEqual([Number(min), most]);
      // Of some, 0 has another meaning.
      const least = / 0 (?:chooses|uses)/.test(doc) ? -1 : Number(min) - 1;
      for (const bad of [least, most + 1]) expect(() => check(option, bad), option).toThrow(option);
    }
  });
});
