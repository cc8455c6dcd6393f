/** The batcher of texts: those of all requests run together through the text tower. */
import type { TextTower } from '../../features/text/text-encoder.js';
import { Batcher, placesOf, type BatchPlan } from './batcher.js';

/** Maximum number of texts per request, as in OpenAI's API. */
export const MAX_TEXTS = 2048;
/** Maximum number of UTF-16 units per text. Tokenizers work on the event loop; towers read the first 64 to 77 tokens of most texts. */
export const MAX_TEXT_LENGTH = 8192;
/** Maximum number of waiting texts. */
const MAX_QUEUE = 4 * MAX_TEXTS;
const TEXTS_PER_RUN = 32;
/** UTF-16 units that are tokenized in one turn of the event loop, unless a single text has more: tens of milliseconds. */
const LENGTH_PER_TURN = 8192;

/** A text's vector as the tower gives it, and its number of tokens. */
export interface EncodedText {
  readonly vector: Float32Array;
  readonly tokens: number;
}

export interface TextBatcher {
  readonly batcher: Batcher<string, EncodedText>;
  /** Number of elements of a vector. */
  readonly elements: number;
}

/** Opens the batcher and runs one text, so that errors of the tower show here. */
export async function openTextBatcher(
  tower: TextTower,
  { maxWaitMs }: Pick<BatchPlan, 'maxWaitMs'>,
): Promise<TextBatcher> {
  const [warm] = await tower.encode(['warm-up']);
  const plan: BatchPlan = {
    maxBatch: TEXTS_PER_RUN,
    maxWaitMs,
    maxQueue: MAX_QUEUE,
    decodesAtOnce: TEXTS_PER_RUN,
    sessions: 1,
    runsAtOnce: 1,
  };
  const texts = Array.from({ length: placesOf(plan) }, () => '');
  const batcher = new Batcher<string, EncodedText>(
    {
      decode: async (text, place) => {
        texts[place] = text;
      },
      run: async (places) => {
        const encoded: EncodedText[] = [];
        for (const part of partsOf(places.map((place) => texts[place]!))) {
          const vectors = await tower.encode(part);
          for (const [i, vector] of vectors.entries())
            encoded.push({ vector, tokens: tower.tokenize(part[i]!).length });
        }
        return encoded;
      },
    },
    plan,
  );
  return { batcher, elements: warm!.length };
}

/** Splits texts into runs of texts that are not too long together. */
function partsOf(texts: readonly string[]): string[][] {
  const parts: string[][] = [];
  let length = Infinity;
  for (const text of texts) {
    length += text.length;
    if (length > LENGTH_PER_TURN) {
      parts.push([]);
      length = text.length;
    }
    parts.at(-1)!.push(text);
  }
  return parts;
}
