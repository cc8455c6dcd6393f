/** Errors about state dicts that do not fit a model. */
import { TapirError } from '../../../base/errors.js';

/** Keys that do not fit. */
export interface Misfits {
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
  /** Keys with other dims or dtypes. */
  readonly misshapen: readonly { readonly key: string; readonly expected: string; readonly actual: string }[];
  /** Keys of which the exporter computed something else. */
  readonly derived: readonly string[];
  /** Tensors of the file that a reference does not explain. */
  readonly unexplained: readonly string[];
}

/** A message names at most so many keys of a kind; the details have all. */
const MOST_NAMED = 8;

/** `STATE_MISMATCH`, for a state dict that does not fit a subject, with what to do. */
export function misfitsError(
  subject: string,
  { derived, unexplained, ...misfits }: Misfits,
  advice: string,
): TapirError<'STATE_MISMATCH'> {
  const { missing, unexpected, misshapen } = misfits;
  const shapes = misshapen.map(({ key, expected, actual }) => `${key} is ${actual} and must be ${expected}`);
  const parts = [
    ['other dims or dtype', shapes],
    ['the exporter computed something else of it, so the file cannot take it', derived],
    ['missing', missing],
    ['unexpected', unexpected],
    ['tensors of the file that the reference does not explain', unexplained],
  ] as const;
  const reasons = parts
    .filter(([, keys]) => keys.length > 0)
    .map(([what, keys]) => `${what}: ${listKeys(keys)}`);
  return new TapirError(
    'STATE_MISMATCH',
    `the state dict does not fit ${subject}: ${reasons.join('; ') || 'it is empty'}; ${advice}`,
    {
      details: {
        ...misfits,
        ...(derived.length > 0 ? { derived } : {}),
        ...(unexplained.length > 0 ? { unexplained } : {}),
      },
    },
  );
}

/** What to do about a state dict of so many keys that does not fit. A reference that was given does not prove that unexpected keys are unused. */
export function adviceFor(
  { missing, unexpected, misshapen, derived }: Misfits,
  keys: number,
  hasReference: boolean,
): string {
  if (missing.length > 0 && unexpected.length === keys)
    return 'no key matches; state the prefix that its keys have, or load the state dict of this network';
  if (misshapen.length + derived.length > 0) return 'load the state dict of the network that was exported';
  return hasReference
    ? 'the file does not prove that unexpected keys are unused; pass strict: false to load the rest, or export the model again without optimisation (optimize=False)'
    : 'pass strict: false to load the rest, or the state dict of the present weights as reference, which shows what is not in the file';
}

/** `STATE_AMBIGUOUS`. */
export function ambiguous(key: string, candidates: readonly string[]): TapirError<'STATE_AMBIGUOUS'> {
  const among = candidates.length > 0 ? `: it may be any of ${listKeys(candidates)}` : '';
  return ambiguity(
    `the model does not show what belongs to "${key}"${among}; pass the state dict of the model's present weights as reference, or export the model again without folding (do_constant_folding=False, training=PRESERVE)`,
    key,
    candidates,
  );
}

/** `STATE_AMBIGUOUS`, for the epsilon of a folded norm. */
export function unknownEpsilon(layer: string, norm: string): TapirError<'STATE_AMBIGUOUS'> {
  return ambiguity(
    `the model does not show the epsilon of "${norm}", which was folded into "${layer}.weight"; state it (option "epsilon": torch's default is 1e-5, many networks have 1e-3), or pass the state dict of the model's present weights (option "reference")`,
    `${norm}.running_var`,
  );
}

/** `STATE_AMBIGUOUS`, for keys that only elimination told. */
export function unproven(keys: readonly string[]): TapirError<'STATE_AMBIGUOUS'> {
  return ambiguity(
    `nothing proves that the model holds these keys as they are: ${listKeys(keys)}; ${PROOF}, or pass strict: true to assume it`,
    keys[0]!,
    keys.slice(1),
  );
}

/** The warning about such keys. */
export function assumedNote(keys: readonly string[]): string {
  return `assumed, because their tensors have other names and may be computed of them: ${keys.join(', ')}; ${PROOF}`;
}

const PROOF = 'pass the state dict of the model’s present weights as reference (--reference) to prove it';

/** `STATE_AMBIGUOUS`, for a reference that does not have the present weights. */
export function notPresent(key: string): TapirError<'STATE_AMBIGUOUS'> {
  return ambiguity(
    `the reference has other values for "${key}" than the model, so it proves nothing; pass the state dict of the model's present weights, or none`,
    key,
  );
}

function ambiguity(
  message: string,
  key: string,
  candidates: readonly string[] = [],
): TapirError<'STATE_AMBIGUOUS'> {
  return new TapirError('STATE_AMBIGUOUS', message, { details: { key, candidates } });
}

function listKeys(keys: readonly string[]): string {
  const named = keys.slice(0, MOST_NAMED).join(', ');
  return keys.length > MOST_NAMED ? `${named} and ${keys.length - MOST_NAMED} more` : named;
}
