/** What the docblocks of options say is what their fields do. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Check, Field } from '../../src/base/options.js';
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

/** Whether another part checks the option. */
function takesAll(check: Check<unknown>): boolean {
  try {
    check('', Symbol('none'));
    return true;
  } catch {
    return false;
  }
}

const NUMBER = String.raw`-?(?:2\^)?\d+(?:[ ,\u00a0]\d{3})*(?:\.\d+)?(?: − 1| million| GiB)?`;
const RANGE = new RegExp(`(?:integer|number|,) from (${NUMBER}) to (${NUMBER})`);

/** `0.5`, `10,000`, `2^32 − 1`, `10 million`, `1 GiB` */
function readNumber(text: string): number {
  const [, power, digits, unit] = /^(2\^)?(.*?)( − 1| million| GiB)?$/.exec(text)!;
  const number = Number(digits!.replaceAll(/[ ,\u00a0]/g, ''));
  const value = power ? 2 ** number : number;
  return unit === ' − 1' ? value - 1 : value * (unit === ' million' ? 1e6 : unit ? 2 ** 30 : 1);
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
      const [, from, to] = RANGE.exec(doc) ?? [];
      if (from === undefined || to === undefined || takesAll(check)) continue;
      const [min, max] = [readNumber(from), readNumber(to)];
      expect([check(option, min), check(option, max)], option).toEqual([min, max]);
      // Of some, 0 has another meaning.
      const least = / 0 (?:chooses|uses)/.test(doc) ? -1 : min - 1;
      for (const bad of [least, max + 1]) expect(() => check(option, bad), option).toThrow(option);
    }
  });
});
