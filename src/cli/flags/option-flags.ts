/** Flags made from the options of the library: help, words, parser, check and default are those of the field. */
import { Option, type Command } from 'commander';
import type { Field, Fields } from '../../base/options.js';
import { collect, parseCount, parseNumber } from './flag-values.js';

/** How texts become values; a switch has none. */
const PARSERS: Readonly<Record<string, (text: string, before: readonly string[] | undefined) => unknown>> = {
  count: parseCount,
  number: parseNumber,
  text: (text) => text,
  texts: collect,
};

/** A flag whose value has the name of the library's option: `--output <key>` gives `key`. */
class FieldOption extends Option {
  readonly #name: string;

  constructor(flag: string, name: string, { reads, fallback, about, check }: Field<unknown>) {
    super(flag, about);
    this.#name = name;
    const parse = typeof reads === 'function' ? reads : PARSERS[String(reads)];
    if (Array.isArray(reads)) this.choices(reads);
    else if (parse)
      this.argParser((text, before: unknown) => {
        const value = parse(text, before as readonly string[]);
        // The error names the flag. The library checks again what it is given.
        check(this.long!, value);
        return value;
      });
    if (fallback !== undefined && !Array.isArray(fallback)) this.default(fallback);
  }

  override attributeName(): string {
    return this.#name;
  }
}

/**
 * Adds a flag for each named option.
 *
 * @param flags - How commander writes the flag, by option: `{ batch: '--batch <n>' }`.
 * @param when - What stands before the help: `'with --samples: '`.
 */
export function addFlags<Named>(
  command: Command,
  fields: Fields<Named>,
  flags: { readonly [Name in keyof Named]?: string },
  when = '',
): Command {
  for (const [name, flag] of Object.entries<string | undefined>(flags)) {
    const field = fields[name as keyof Named];
    command.addOption(new FieldOption(flag!, name, { ...field, about: when + field.about }));
  }
  return command;
}

/** Reads the text of one option as its flag would; `label` names it in errors. Throws `OPTION_INVALID`. */
export function readFieldText<Value>(label: string, { reads, check }: Field<Value>, text: string): Value {
  if (typeof reads === 'function') return check(label, reads(text));
  const isNumber =
    (reads === 'count' || reads === 'number') && text.trim() !== '' && !Number.isNaN(Number(text));
  if (isNumber) return check(label, Number(text));
  if (reads === 'switch' && /^(?:true|false)$/.test(text)) return check(label, text === 'true');
  return check(label, reads === 'texts' ? [text] : text);
}

/** The flags that are options of the library. */
export function readFlags<Named, Flags extends object>(
  fields: Fields<Named>,
  flags: Flags,
): Pick<Flags, keyof Flags & keyof Named> {
  const alike = Object.entries(flags).filter(([name]) => Object.hasOwn(fields, name));
  return Object.fromEntries(alike) as Pick<Flags, keyof Flags & keyof Named>;
}
