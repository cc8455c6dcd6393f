/** The JSON that the page reads: the model, what it costs, and what a photo gives. */
import type { Figures } from '../../../../onnx/tensor/measure-figures.js';
import type { ModelStructure } from '../structure/model-structure.js';

/** A photo as the model sees it. */
export interface PagePhoto {
  readonly id: string;
  readonly name: string;
  /** A `data:` address. */
  readonly picture: string;
  /** Of a tile: its picture, and where it lies in it; null for a photo. */
  readonly place: PagePlaceInPicture | null;
}

/** Where a tile lies in its picture. */
export interface PagePlaceInPicture {
  /** The whole picture: a `data:` address. */
  readonly picture: string;
  /** Parts of the picture's sides, from 0 to 1. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Bytes of places, row by row, in base64. */
export interface PagePixels {
  readonly height: number;
  readonly width: number;
  readonly pixels: string;
}

/** Maps of equal size, one after the other, a byte per place: 0 is the least value of a map, 255 its largest. */
export interface PageMaps extends PagePixels {
  /** Channel (or head), least and largest value of each map. */
  readonly maps: readonly (readonly [channel: number, least: number, largest: number])[];
  /** Places that were averaged into one, in each direction. */
  readonly reduced: number;
}

/** Figures of a tensor. */
export interface PageStatistics extends Figures {
  readonly count: number;
  /** Channels, and those whose values are all the same. */
  readonly channels: number | null;
  readonly dead: number | null;
}

/** What a node gives for a photo. */
export interface PageFeatures {
  readonly dtype: string;
  readonly dims: readonly number[];
  readonly statistics: PageStatistics;
  /** The channels with the most energy; null for a tensor without places. */
  readonly maps: PageMaps | null;
  /** Principal components of the channels as red, green and blue, three bytes a place. */
  readonly colours: PagePixels | null;
  /** Of scores of classes per pixel: the colour of the highest one, three bytes a place. */
  readonly mask: PagePixels | null;
  /** The values of a vector, float32 in base64. */
  readonly vector: string | null;
  /** Sentences: tokens that were left out, values that were averaged. */
  readonly notes: readonly string[];
}

/** The attention of one layer: where a token looks, a map per head. */
export interface PageAttention extends PageMaps {
  /** Whose attention it is. */
  readonly from: string;
}

/** A class and its score. */
export interface PageClass {
  readonly index: number;
  readonly label: string | null;
  readonly score: number;
  /** Softmax of the scores, or the score itself where the scores are probabilities. */
  readonly probability: number;
}

/** Where the score of a class comes from, a byte per pixel. */
export interface PageHeat extends PagePixels {
  readonly layer: string;
  readonly classIndex: number;
  readonly label: string | null;
  readonly score: number;
  /** Which scores are explained, in a sentence. */
  readonly about: string;
}

/** The cut that some names need, as it would be written. */
export interface PageCut {
  readonly bytes: number;
  readonly notes: readonly string[];
}

/** Answers that a written page carries, by their question: `features?node=layer4&photo=0`. */
export type Recorded = Readonly<Record<string, unknown>>;

/** How code prepares a photo. */
export interface PhotoCode {
  /** The input that takes the photo; null for a model that takes none. */
  readonly input: string | null;
  /** Options as an object literal: `{ resize: 64 }`; empty for the default. */
  readonly transform: string;
  /** Whether the model takes the tensor of `loadImage`: float32, and one row. */
  readonly isTensor: boolean;
}

/** What the page carries. */
export interface PageData {
  readonly model: ModelStructure;
  /** The secret that requests must carry; null for a written page. */
  readonly key: string | null;
  readonly photos: readonly PagePhoto[];
  readonly recorded: Recorded;
  /** What was asked for with `--return`: nodes and boxes, as in {@link StructureBox.children}. */
  readonly picked: readonly number[];
  /** Why the model takes no photo; null if it does. */
  readonly noPhotos: string | null;
  /** How photos are prepared. */
  readonly photoNote: string;
  readonly photoCode: PhotoCode;
}
