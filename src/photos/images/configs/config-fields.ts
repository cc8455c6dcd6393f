/** The fields of a configuration: each one is read, known to be harmless, or refused. And what reading them gives. */
import { show, type Options } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import type { Interpolation } from '../resample/kernel.js';
import type { TransformOptions } from '../transform/transform-options.js';
import type { TransformSource } from '../transform/transform.js';

/** The options that a configuration sets; the others have the defaults of `createTransform`. */
export type ConfigOptions = Options<TransformOptions>;

/** A configuration as options, and where they came from. */
export interface ResolvedConfig extends Omit<TransformSource, 'file'> {
  readonly options: ConfigOptions;
}

/** The arithmetic of transformers: with Pillow, or with torchvision's tensors. */
export type Backend = NonNullable<TransformSource['backend']>;

/** Red, green and blue. */
export type Channels = readonly [number, number, number];

/** Words in the names of fields that may change pixels. */
const CHANGES_PIXELS =
  /^do_|pad|crop|size|resiz|resampl|interpol|mean|std|scale|norm|fill|colou?r|channel|flip|rotat|gamma|patch|frame|thumbnail|align|grid|tile|split|mode|orient|exif|alpha|transparen/;

/** The fields of one JSON object. Fields of the value null count as left out. */
export class ConfigFields {
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #library: string;
  readonly #seen = new Set<string>();

  constructor(fields: Readonly<Record<string, unknown>>, library: string) {
    this.#fields = fields;
    this.#library = library;
  }

  /** These fields, with defaults for those that are left out. */
  over(defaults: Readonly<Record<string, unknown>>): ConfigFields {
    return new ConfigFields({ ...defaults, ...this.#fields }, this.#library);
  }

  /** The value of a field; undefined if it is missing or null. */
  take(name: string): unknown {
    this.#seen.add(name);
    return (Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined) ?? undefined;
  }

  /** Whether the file has the field, even as null. */
  has(name: string): boolean {
    return Object.hasOwn(this.#fields, name);
  }

  /** Counts fields as harmless. */
  skip(...names: readonly string[]): void {
    for (const name of names) this.#seen.add(name);
  }

  /** Counts all fields of a pattern as harmless. */
  skipAll(pattern: RegExp): void {
    this.skip(...Object.keys(this.#fields).filter((name) => pattern.test(name)));
  }

  /** Whether the file has the field with the value null. */
  isNull(name: string): boolean {
    this.#seen.add(name);
    return this.has(name) && this.#fields[name] === null;
  }

  /** Refuses a field that is null: in some libraries null takes a default away instead of asking for it. */
  checkSet(name: string, step: string): void {
    if (this.isNull(name)) throw this.refuse(name, `it is null, and ${step} needs it`);
  }

  /** A field of true or false; null means false. */
  flag(name: string, otherwise: boolean): boolean {
    const value = this.take(name) ?? (this.has(name) ? false : otherwise);
    if (typeof value !== 'boolean') throw this.refuse(name, `it must be true or false, got ${show(value)}`);
    return value;
  }

  positive(name: string, otherwise?: number): number {
    const value = this.take(name) ?? otherwise;
    if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
    throw this.refuse(name, `it must be a number above 0, got ${show(value)}`);
  }

  integer(name: string): number {
    return this.pixels(name, this.take(name));
  }

  /** Three numbers, or one for all channels; undefined if the field is missing. A standard deviation must not be 0. */
  channels(name: string): Channels | undefined {
    const value = this.take(name);
    if (value === undefined) return undefined;
    const numbers = typeof value === 'number' ? [value, value, value] : value;
    const isStd = name.endsWith('std');
    const isFit = (one: unknown): boolean =>
      typeof one === 'number' && Number.isFinite(one) && (!isStd || Math.fround(one) !== 0);
    if (Array.isArray(numbers) && numbers.length === 3 && numbers.every(isFit))
      return numbers as unknown as Channels;
    throw this.refuse(name, `it must be three numbers${isStd ? ' other than 0' : ''}, got ${show(value)}`);
  }

  /** An interpolation that the library knows. */
  interpolation(known: readonly Interpolation[], otherwise: Interpolation): Interpolation {
    const value = this.take('interpolation') ?? otherwise;
    const found = known.find((one) => one === value);
    if (found !== undefined) return found;
    throw this.refuse('interpolation', `it must be one of ${known.join(', ')}, got ${show(value)}`);
  }

  /** Checks a number of pixels that is part of a field. */
  pixels(name: string, value: unknown): number {
    if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 65_536) return value;
    throw this.refuse(name, `it must be a number of pixels, got ${show(value)}`);
  }

  inner(name: string): ConfigFields {
    const value = this.take(name);
    if (typeof value !== 'object' || value === undefined || Array.isArray(value))
      throw this.refuse(name, `it must be an object, got ${show(value)}`);
    return new ConfigFields(value as Record<string, unknown>, this.#library);
  }

  /**
   * Ends the reading.
   *
   * @param unused - Fields that are known to have no effect here, whatever their names sound like.
   * @returns The fields that were not read and change no pixels.
   * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for a field that may change pixels.
   */
  rest(unused: readonly string[] = []): string[] {
    const names = Object.keys(this.#fields).filter((name) => !this.#seen.has(name));
    for (const name of names) {
      const value = this.#fields[name];
      const isOff = value === null || value === false;
      if (!isOff && !unused.includes(name) && CHANGES_PIXELS.test(name))
        throw this.refuse(name, `it may change pixels, and is not known (its value is ${show(value)})`);
    }
    return names;
  }

  /** The error for a field that cannot be followed. */
  refuse(field: string, reason: string): TapirError<'TRANSFORM_UNSUPPORTED'> {
    const message = `the ${this.#library} configuration cannot be followed: "${field}": ${reason}; state the transform yourself (option "transform", createTransform)`;
    return new TapirError('TRANSFORM_UNSUPPORTED', message, { details: { field, reason } });
  }
}
