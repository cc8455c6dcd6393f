/** The tokens that stand around every text: section `post_processor` of a tokenizer.json. */
import { listOf, type PartConfig } from './normalizers.js';

/** Ids before and after a text. */
type Around = readonly [before: readonly number[], after: readonly number[]];

/** Reads which ids stand around a text. Throws Error for a post-processor that does something else; the caller names the file. */
export function readTokensAround(config: PartConfig | null): Around {
  switch (config?.type) {
    case undefined:
    case 'ByteLevel':
      return [[], []];
    case 'Sequence': {
      const [first = null, second] = listOf(config['processors']).filter(({ type }) => type !== 'ByteLevel');
      if (second) throw new Error('its post-processor adds tokens in two steps, which is not supported');
      return readTokensAround(first);
    }
    case 'BertProcessing':
    case 'RobertaProcessing':
      return [[idOf(config['cls'])], [idOf(config['sep'])]];
    case 'TemplateProcessing':
      return readTemplate(config);
    default:
      throw new Error(`post-processor "${String(config?.type)}" is not supported`);
  }
}

/** The id of a pair of token and id. */
function idOf(pair: unknown): number {
  return (pair as readonly [token: string, id: number])[1];
}

interface SpecialToken {
  readonly ids: readonly number[];
}

function readTemplate(config: PartConfig): Around {
  const known = config['special_tokens'] as Readonly<Record<string, SpecialToken>>;
  const items = listOf(config['single']);
  const at = items.findIndex((item) => 'Sequence' in item);
  const idsOf = (part: readonly PartConfig[]): number[] =>
    part.flatMap(({ SpecialToken: token }) => known[(token as { readonly id: string }).id]!.ids);
  if (at === -1 || items.slice(at + 1).some((item) => 'Sequence' in item))
    throw new Error('its post-processor has not one place for the text');
  return [idsOf(items.slice(0, at)), idsOf(items.slice(at + 1))];
}
