/** The side of padding: stated, that of tokenizer.json, or that of the class in transformers. */
import { expect, it } from 'vitest';
import { readTokenSettings } from '../../../../src/products/features/text/token-settings.js';

// AutoTokenizer.from_pretrained(folder).padding_side of transformers 5.24.
it.each([
  ['GemmaTokenizer', undefined, undefined, 'left'],
  ['GemmaTokenizerFast', undefined, undefined, 'left'],
  ['LlamaTokenizerFast', undefined, undefined, 'left'],
  ['CohereTokenizer', undefined, undefined, 'left'],
  ['Siglip2Tokenizer', undefined, undefined, 'left'],
  ['Siglip2Tokenizer', 'Right', undefined, 'right'],
  ['GemmaTokenizer', 'Left', 'right', 'right'],
  ['BertTokenizer', 'Left', undefined, 'left'],
  ['PreTrainedTokenizerFast', undefined, undefined, 'right'],
  ['CLIPTokenizer', undefined, 'left', 'left'],
])('%s with direction %s in tokenizer.json and %s stated pads %s', (name, direction, stated, expected) => {
  const padding = direction && { direction };
  const files = {
    path: 'tokenizer.json',
    tokenizer: { model: { type: 'BPE' }, padding },
    settings: { tokenizer_class: name, ...(stated && { padding_side: stated }) },
    config: {},
  };
  expect(readTokenSettings(files as never, { length: 8, hasMask: false }).padSide).toBe(expected);
});
