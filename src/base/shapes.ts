/** The form of JSON that a program wrote and something may have damaged. */
import { isPlainObject } from './checks.js';

/** Whether a value has a form. */
export type Shape = (value: unknown) => boolean;
/** The forms of the fields of an object, by name. */
export type Shapes = Readonly<Record<string, Shape>>;

export const text: Shape = (value) => typeof value === 'string';
export const number: Shape = (value) => typeof value === 'number';
export const flag: Shape = (value) => typeof value === 'boolean';
export const anything: Shape = () => true;

/** A whole number from 0. */
export const count: Shape = (value) => Number.isSafeInteger(value) && (value as number) >= 0;

export function optional(shape: Shape): Shape {
  return (value) => value === undefined || shape(value);
}

export function nullable(shape: Shape): Shape {
  return (value) => value === null || shape(value);
}

export function listOf(shape: Shape): Shape {
  return (value) => Array.isArray(value) && value.every(shape);
}

/** An object whose values have a form, whatever they are called. */
export function recordOf(shape: Shape): Shape {
  return (value) => isPlainObject(value) && Object.values(value).every(shape);
}

/** An object with these fields, and perhaps others. */
export function fields(shapes: Shapes): Shape {
  const entries = Object.entries(shapes);
  return (value) => isPlainObject(value) && entries.every(([name, shape]) => shape(value[name]));
}

/** The first field of an object that has not its form; undefined if all have. */
export function firstMisshapen(value: Readonly<Record<string, unknown>>, shapes: Shapes): string | undefined {
  return Object.keys(shapes).find((name) => !shapes[name]!(value[name]));
}
