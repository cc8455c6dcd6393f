/** `--set key=value` and `--config run.json`: options that few people need, under their names in code instead of flags. */
import type { Command, Option } from 'commander';
import { checkBoolean, invalidOption, isPlainObject } from '../../base/checks.js';
import { nearestOrAll } from '../../base/nearest-names.js';
import type { Field, Fields } from '../../base/options.js';
import { readJson } from '../../base/read-json.js';
import { readFieldText } from './option-flags.js';
import { rare } from './rare.js';

/** The settings of each command, by name. */
const SETTINGS = new WeakMap<Command, Map<string, Field<unknown>>>();

/**
 * Adds settings for the named options. A command finds their values among those of its flags.
 *
 * @param when - What stands before the help: `'with --samples: '`.
 */
export function addSettings<Named>(
  command: Command,
  fields: Fields<Named>,
  names: readonly (keyof Named & string)[],
  when = '',
): Command {
  const settings = SETTINGS.get(command) ?? addSettingFlags(command);
  for (const name of names) {
    const field: Field<unknown> = fields[name];
    settings.set(name, { ...field, about: when + field.about });
    if (!Array.isArray(field.fallback)) command.setOptionValueWithSource(name, field.fallback, 'default');
  }
  return command;
}

function addSettingFlags(command: Command): Map<string, Field<unknown>> {
  const settings = new Map<string, Field<unknown>>();
  SETTINGS.set(command, settings);
  command
    .option(
      rare('--set <key=value>'),
      'an option that has no flag, under its name in code; repeatable; --help all lists them',
      (text: string) => readSetting(command, settings, text),
    )
    .option(
      rare('--config <file>'),
      'JSON object of options, under the names of --set and of flags; the command line wins over it',
    );
  return settings;
}

/** `shardSize=100`. Throws `OPTION_INVALID`. */
function readSetting(command: Command, settings: ReadonlyMap<string, Field<unknown>>, text: string): void {
  const [, key = text, value] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
  const field = settings.get(key);
  const flag = flagsOf(command).get(key)?.long;
  if (!field && flag) throw invalidOption('--set', `an option without a flag: write ${flag}`, key);
  if (!field) throw unknownKey('--set', key, settings.keys());
  if (value === undefined) throw invalidOption('--set', `a key with its value: ${key}=…`, text);
  const read = readFieldText(`--set ${key}`, field, value);
  const isMore = field.reads === 'texts' && command.getOptionValueSource(key) === 'cli';
  const before = isMore ? (command.getOptionValue(key) as unknown[]) : [];
  const now = field.reads === 'texts' ? [...before, ...(read as unknown[])] : read;
  command.setOptionValueWithSource(key, now, 'cli');
}

function unknownKey(option: string, key: string, known: Iterable<string>): Error {
  return invalidOption(option, `one of ${nearestOrAll(key, known)}`, key);
}

/**
 * Applies the file of `--config` to the settings that the command line leaves open. Throws `OPTION_INVALID`.
 *
 * @returns The words of those of its keys that are flags.
 */
function applyConfig(command: Command): string[] {
  const { config } = command.opts<{ readonly config?: string }>();
  if (config === undefined || !SETTINGS.has(command)) return [];
  return applyOptions(command, '--config', readConfigFile(config));
}

/** The same for options from elsewhere; `where` says for errors where from. */
export function applyOptions(command: Command, where: string, options: object): string[] {
  const settings = settingsOf(command);
  const flags = flagsOf(command);
  return Object.entries(options).flatMap(([key, value]) => {
    const [field, flag, label] = [settings.get(key), flags.get(key), `${where} ${key}`];
    if (!field && !flag) throw unknownKey(where, key, [...settings.keys(), ...flags.keys()]);
    if (command.getOptionValueSource(key) === 'cli') return [];
    if (!field) return wordsOf(label, flag!, value);
    const read = typeof value === 'string' ? readFieldText(label, field, value) : field.check(label, value);
    command.setOptionValueWithSource(key, read, 'config');
    return [];
  });
}

/** Gives words for a command whose own are parsed. */
type WordSource = (command: Command) => string[];

const WORDS = new WeakMap<Command, WordSource>();

/** Adds words behind those of the command line and of `--config`, which win over them. */
export function addWords(command: Command, source: WordSource): void {
  WORDS.set(command, source);
}

/** Where the words of a command come from, beside the command line. */
export function wordSources(command: Command): WordSource[] {
  const own = WORDS.get(command);
  return own ? [applyConfig, own] : [applyConfig];
}

function readConfigFile(file: string): object {
  const refuse = (reason: string): Error =>
    invalidOption('--config', `a JSON file with an object of options (${reason})`, file);
  const options = readJson(file, refuse);
  if (isPlainObject(options)) return options;
  throw refuse(options === undefined ? 'there is no such file' : 'it holds something else');
}

/** The flags that a file may hold, by the names of their values. */
function flagsOf({ options }: Command): Map<string, Option> {
  const flags = options.filter(({ long }) => long !== '--set' && long !== '--config');
  return new Map(flags.map((option) => [option.attributeName(), option]));
}

function wordsOf(label: string, option: Option, value: unknown): string[] {
  const flag = option.long!;
  if (option.isBoolean() || option.negate) return checkBoolean(label, value) === option.negate ? [] : [flag];
  if (option.optional && value === true) return [flag];
  const textOf = (one: unknown): string => (typeof one === 'string' ? one : JSON.stringify(one));
  return [value].flat().map((one) => `${flag}=${textOf(one)}`);
}

/** How to write a flag that is a setting: `--set shardSize=5` for `--shard-size=5`. */
export function asSetting(command: Command, flag: string): string | undefined {
  const [, no, name, value = '…'] = /^--(no-)?([^=]*)=?(.+)?$/s.exec(flag) ?? [];
  const plain = (text: string): string => text.replaceAll('-', '').toLowerCase();
  const [key, field] = [...settingsOf(command)].find(([key]) => plain(key) === plain(name ?? '')) ?? [];
  return field && `--set ${key}=${field.reads === 'switch' ? !no : value}`;
}

export function settingsOf(command: Command): ReadonlyMap<string, Field<unknown>> {
  return SETTINGS.get(command) ?? new Map<string, Field<unknown>>();
}
