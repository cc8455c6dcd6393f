/** Which tokens of a value are the class token, registers and patches, as far as the graph and the model's configuration prove it. */
import type { Dim } from '../file/wire/schema.js';
import type { Value } from './graph.js';
import type { LearnedTokens, TokenFlow } from './token-flow.js';

/** Places of tokens: the first one, and the one after the last; null as the end where the number follows the photo. */
export type TokenRange = readonly [start: number, end: number | null];

/** What the tokens `[N, L, C]` of a model are. A range is empty, such as `[1, 1]`, if there are no such tokens. */
export interface TokenParts {
  /** The class token; null if it is not proven which token that is. */
  readonly class: TokenRange | null;
  /** Register tokens (DINOv2 with registers, DINOv3); null if it is not proven which tokens they are. */
  readonly registers: TokenRange | null;
  /** The patches of the photo, row by row. */
  readonly patches: TokenRange;
  /** Side of a patch, in pixels. */
  readonly patchSize: number;
}

/** A part of the tokens. */
export type TokenPart = 'class' | 'registers' | 'patches';

/** What a learned token is for; undefined if nothing shows it. */
type Meaning = 'class' | 'register' | 'other' | undefined;

/** The names that exporters and libraries give to the weights of learned tokens. */
const NAMES: readonly (readonly [Meaning, RegExp])[] = [
  ['class', /(cls|class)[_.](token|embed)/i],
  ['register', /(reg|register|storage)[_.]token/i],
  ['other', /(dist|distillation)[_.]token/i],
];

/**
 * The parts of a value's tokens; null if it has another form than `[N, L, C]`, or the graph does not prove where its patches are.
 *
 * @param registers - How many registers the model's `config.json` states behind a class token; undefined if it states none.
 */
export function findTokenParts(
  value: Value,
  dims: readonly Dim[] | null,
  { runs, readAlone }: TokenFlow,
  registers: number | undefined,
): TokenParts | null {
  const run = runs.get(value);
  if (run?.axis !== 1 || run.patch === undefined || dims?.length !== 3) return null;
  const named = run.learned.flatMap((tokens) =>
    Array.from({ length: tokens.count }, () => meaningOf(tokens.constant)),
  );
  const prefix = named.length;
  const end = typeof dims[1] === 'number' ? dims[1] : null;
  if (end !== null && end <= prefix) return null;
  const isStated = registers !== undefined && prefix === 1 + registers;
  const isClass = isStated || (prefix > 0 && isReadAlone(run.learned[0]!, readAlone));
  const known = named.map(
    (meaning, i) => meaning ?? (i === 0 && isClass ? 'class' : isStated ? 'register' : undefined),
  );
  const found = rangeOf(known, 'register', prefix);
  const isDenied = registers !== undefined && found !== null && found[1] - found[0] !== registers;
  return {
    class: rangeOf(known, 'class', 0),
    registers: isDenied ? null : found,
    patches: [prefix, end],
    patchSize: run.patch,
  };
}

const NONE: TokenRange = [0, 0];

/** The tokens of a tensor that holds only one part. */
export function takeTokenPart(tokens: TokenParts, part: TokenPart): TokenParts {
  const [start, end] = tokens[part]!;
  const count = end === null ? null : end - start;
  return { class: NONE, registers: NONE, patches: NONE, patchSize: tokens.patchSize, [part]: [0, count] };
}

/** What the names of its weights say about a learned token. */
function meaningOf(constant: Value): Meaning {
  const names = weightsOf(constant);
  const [first, ...others] = NAMES.filter(([, name]) => names.some((one) => name.test(one)));
  return others.length === 0 ? first?.[0] : undefined;
}

/** Whether the model takes out the first token alone, as a head takes the class token. */
function isReadAlone(first: LearnedTokens, readAlone: readonly LearnedTokens[]): boolean {
  return readAlone.some(({ constant, start }) => constant === first.constant && start === first.start);
}

/** The names of the weights that a constant is computed from. */
function weightsOf(constant: Value): readonly string[] {
  const seen = new Set([constant]);
  for (const value of seen) for (const read of value.producer?.inputs ?? []) if (read) seen.add(read);
  return [...seen].filter(({ initializer }) => initializer).map(({ name }) => name);
}

/** The places of one meaning; empty at `none` if no token has it; null if they are not proven or lie apart. */
function rangeOf(
  known: readonly Meaning[],
  meaning: Meaning,
  none: number,
): readonly [number, number] | null {
  const start = known.indexOf(meaning);
  if (start < 0) return known.includes(undefined) ? null : [none, none];
  const end = known.lastIndexOf(meaning) + 1;
  return known.slice(start, end).every((one) => one === meaning) ? [start, end] : null;
}
