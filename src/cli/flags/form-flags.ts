/** `--engine` and `--precision`: what the flags name, else what the model's own file says, else float32 by ONNX Runtime. */
import { basename } from 'node:path';
import type { Command } from 'commander';
import { checkOneOf, invalidOption } from '../../base/checks.js';
import { checkedBy, type Field, type Fields } from '../../base/options.js';
import { holdsOn } from '../../extract/own-settings.js';
import { settingsOf } from '../../run/model/open/model-settings.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import {
  ENGINES,
  PRECISIONS,
  type EngineName,
  type Precision,
} from '../../run/runtime/capabilities/capabilities.js';
import type { Device } from '../../run/runtime/lanes/device.js';
import { LANE_FIELDS } from '../../run/runtime/lanes/lane-options.js';
import type { Terminal } from '../terminal/terminal.js';
import { addFlags } from './option-flags.js';
import { rare } from './rare.js';

/** Values of the flags. */
export interface FormFlags {
  readonly engine?: EngineName | undefined;
  readonly precision?: Precision | undefined;
}

/** Flags whose engine and precision are known. */
export interface SettledForm {
  readonly engine: EngineName;
  readonly precision: Precision;
  /** Whether the model's own file says so. */
  readonly isOwnForm: boolean;
}

const INSTEAD =
  'a name: "tapir check MODEL PHOTOS --save" measures the fastest and writes it into the model’s own file, which every command reads';

function named<Name extends string>(
  names: readonly Name[],
  { about, fallback }: Pick<Field<unknown>, 'about' | 'fallback'>,
): Field<Name | undefined> {
  const check = (option: string, value: unknown): Name | undefined => {
    if (value === 'auto') throw invalidOption(option, INSTEAD, value);
    return value === undefined ? value : checkOneOf(option, value, names);
  };
  const list = `${names.join(', ')} (default: as the model’s own file says, else ${String(fallback)})`;
  return checkedBy(check, undefined, `${about}: ${list}`);
}

const FORM_FIELDS: Fields<FormFlags> = {
  engine: named(ENGINES, LANE_FIELDS.engine),
  precision: named(PRECISIONS, LANE_FIELDS.precision),
};

export function addFormFlags(command: Command): Command {
  return addFlags(command, FORM_FIELDS, {
    engine: rare('--engine <name>'),
    precision: rare('--precision <type>'),
  });
}

/** The engine and the precision of a run. Says what the model's own file decides. Throws `SETTINGS_INVALID`. */
export function settleForm<Flags extends FormFlags>(
  terminal: Terminal,
  flags: Flags,
  model: OnnxModel,
  devices: readonly Device[],
): Flags & SettledForm {
  const usual = { engine: LANE_FIELDS.engine.fallback, precision: LANE_FIELDS.precision.fallback };
  const { engine, precision } = flags;
  const stated = { ...flags, engine: engine ?? usual.engine, precision: precision ?? usual.precision };
  const own = engine === undefined && precision === undefined ? settingsOf(model) : undefined;
  if (!own || !holdsOn(own, devices) || (own.engine ?? own.precision) === undefined)
    return { ...stated, isOwnForm: false };
  const taken = { engine: own.engine ?? usual.engine, precision: own.precision ?? usual.precision };
  terminal.err(`engine: ${taken.engine}, ${taken.precision} (${basename(own.file)})\n`);
  return { ...flags, ...taken, isOwnForm: true };
}
