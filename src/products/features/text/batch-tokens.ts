/** Texts → batches of token ids, cut and padded as the model was trained. */
import { groupBy } from '../../../base/group-by.js';
import { createTokenizer, tokenizerInvalid, type Tokenizer } from './tokenizer/tokenizer.js';
import type { TokenizerFiles } from './text-tower.js';
import type { TokenBatch } from './tokenizer/token-inputs.js';
import { readTokenSettings, type TokenGraph, type TokenSettings } from './token-settings.js';

/** A batch, and the positions of its texts in the request. */
export interface TextBatch extends TokenBatch {
  readonly positions: readonly number[];
}

/** Makes batches of texts for a text tower. Make one with {@link createTextBatcher}. */
export interface TextBatcher {
  readonly settings: TokenSettings;
  /** The ids of a text as the model gets them alone: cleaned, cut, and padded if all lists have one length. */
  encode(text: string): number[];
  /** Batches of at most `rows` texts. */
  batches(texts: readonly string[], rows: number): TextBatch[];
}

/** Makes the batcher of a text tower. Throws `TOKENIZER_INVALID`; `DEPENDENCY_MISSING`. */
export function createTextBatcher(files: TokenizerFiles, graph: TokenGraph): TextBatcher {
  const settings = readTokenSettings(files, graph);
  const tokenizer = createTokenizer(settings.tokenizer, files.path);
  const padId = readPadId(files.path, settings, tokenizer);
  const { clean, maxTokens, cutSide, padTo } = settings;
  if (maxTokens < tokenizer.added)
    throw tokenizerInvalid(
      files.path,
      `${maxTokens} tokens have no room for the ${tokenizer.added} around a text`,
    );
  const idsOf = (text: string): number[] => tokenizer.encode(clean(text), maxTokens, cutSide);
  const pad = (ids: readonly number[], length: number, filler: number): number[] => {
    const padding = Array.from({ length: length - ids.length }, () => filler);
    return settings.padSide === 'right' ? [...ids, ...padding] : [...padding, ...ids];
  };
  const assemble = (lists: readonly number[][], positions: readonly number[]): TextBatch => {
    const chosen = positions.map((position) => lists[position]!);
    // A graph takes no list without tokens.
    const longest = Math.max(1, ...chosen.map((ids) => ids.length));
    const length = typeof padTo === 'number' ? padTo : longest;
    const masks = chosen.map((ids) => ids.map(() => 1));
    const filler = settings.masksPadding ? 0 : 1;
    return {
      positions,
      ids: chosen.map((ids) => pad(ids, length, padId)),
      masks: masks.map((mask) => pad(mask, length, filler)),
    };
  };
  return {
    settings,
    encode: (text) => {
      const ids = idsOf(text);
      return typeof padTo === 'number' ? pad(ids, padTo, padId) : ids;
    },
    batches: (texts, rows) => {
      const lists = texts.map(idsOf);
      return groupPositions(lists, padTo === 'none', rows).map((positions) => assemble(lists, positions));
    },
  };
}

/** Groups lists in order, or those of one length together if nothing may be padded. */
function groupPositions(lists: readonly number[][], byLength: boolean, rows: number): number[][] {
  const groups = groupBy(lists.keys(), (i) => (byLength ? lists[i]!.length : 0));
  return [...groups.values()].flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / rows) }, (_, i) => group.slice(i * rows, (i + 1) * rows)),
  );
}

function readPadId(path: string, { padToken, padTo }: TokenSettings, tokenizer: Tokenizer): number {
  const id = padToken === undefined ? undefined : tokenizer.idOf(padToken);
  if (id !== undefined) return id;
  // Nothing is padded then, except a text without any token.
  if (padTo === 'none') return 0;
  throw tokenizerInvalid(
    path,
    padToken === undefined
      ? 'tokenizer_config.json names no pad_token, and the model needs padding'
      : `pad_token "${padToken}" is no token of it`,
  );
}
