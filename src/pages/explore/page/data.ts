/** The JSON that the page reads: the model, what it costs, and what a photo gives. */

/** Sizes of a tensor: a number, a symbolic name, or null for an open one. */
export type PageDims = readonly (number | string | null)[];

/** An output of a node by their numbers, or an input of the model: −1 − its index, and 0. */
export type PagePlace = readonly [source: number, output: number];

/** An output of a node, or an input of the model. */
export interface PageTensor {
  /** Name in the file. */
  readonly tensor: string;
  /** The name to request it by. */
  readonly request: string;
  readonly dtype: string | null;
  /** As the file states them; null where it does not. */
  readonly dims: PageDims | null;
}

/** What is special about a node. */
export type PageMark = 'folded' | 'quantized' | 'constant' | 'sizes';

/** A node, in execution order. */
export interface PageNode {
  /** Its name in torchvision's spelling, where it has one; else that of its tensor. */
  readonly name: string;
  readonly op: string;
  readonly role: 'data' | 'shape' | 'constant';
  readonly marks: readonly PageMark[];
  readonly outputs: readonly PageTensor[];
  /** The tensors that it needs. */
  readonly reads: readonly PagePlace[];
  /** Indices into {@link PageModel.weights}. */
  readonly weights: readonly number[];
}

/** A module, or a run of nodes that belong to no module. */
export interface PageBox {
  readonly kind: 'module' | 'run';
  /** The path of the module, or what the run spans. */
  readonly name: string;
  /** The operators of a run; empty for a module. */
  readonly about: string;
  /** In the order in which they are drawn: nodes by their index, {@link PageModel.values} after the nodes, boxes by −1 − their index. */
  readonly children: readonly number[];
  /** What its name denotes; null for a run, and for a name that is refused. */
  readonly value: PagePlace | null;
  /** Why its name is refused. */
  readonly refusal: string | null;
}

/** A name of the source network that denotes nothing in the file. */
export interface PageRefusal {
  readonly name: string;
  readonly why: string;
  /** The name to request instead. */
  readonly instead: string | null;
}

/** What is in a model file, known without running it. */
export interface PageModel {
  /** Name of the file. */
  readonly title: string;
  /** The file as commands and code name it. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly inputs: readonly PageTensor[];
  readonly outputs: readonly PagePlace[];
  readonly nodes: readonly PageNode[];
  /** What stands for itself beside the nodes: the inputs of the model, and all outputs of nodes after the first. */
  readonly values: readonly PagePlace[];
  /** Parameters and bytes of each initializer, and of what the bodies and the function of a node hold. */
  readonly weights: readonly (readonly [elements: number, bytes: number])[];
  /** The first one is the model. */
  readonly boxes: readonly PageBox[];
  readonly refusals: readonly PageRefusal[];
  /** Further names of modules, and what they denote. */
  readonly aliases: readonly (readonly [name: string, value: PagePlace])[];
  /** What the exporter did, in sentences. */
  readonly facts: readonly string[];
}

/** Sizes and costs of one run. Lists have an entry per node. */
export interface PageMeasure {
  /** Sizes of each input as it was fed; null for one that nothing reads. */
  readonly inputs: readonly (PageDims | null)[];
  /** Sizes of each output. */
  readonly dims: readonly (readonly (readonly number[] | null)[])[];
  /** Bytes of each output. */
  readonly bytes: readonly (readonly number[])[];
  /** Multiply-accumulates; null where they cannot be counted. */
  readonly macs: readonly (number | null)[];
  /** Milliseconds; null where nothing was timed. */
  readonly milliseconds: readonly (number | null)[] | null;
}

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

/** Figures about values. */
export interface PageFigures {
  readonly mean: number;
  readonly std: number;
  readonly least: number;
  readonly largest: number;
  /** Elements that are zero. */
  readonly zeros: number;
  /** Elements that are NaN or infinite; the other figures leave them out. */
  readonly notFinite: number;
}

/** Figures of a tensor. */
export interface PageStatistics extends PageFigures {
  readonly count: number;
  /** Channels, and those whose values are all the same. */
  readonly channels: number | null;
  readonly dead: number | null;
}

/** A tensor that the file holds for a node. */
export interface PageWeight {
  readonly name: string;
  readonly dtype: string;
  readonly dims: readonly number[];
  /** Why there are no figures; null where there are. */
  readonly problem: string | null;
  readonly figures: PageFigures | null;
  /** How many values fall into equal steps from the least to the largest. */
  readonly counts: readonly number[];
}

/** What the file holds for a node. */
export interface PageDetail {
  /** Names and values. */
  readonly attributes: readonly (readonly [name: string, text: string])[];
  readonly weights: readonly PageWeight[];
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
  readonly model: PageModel;
  /** The secret that requests must carry; null for a written page. */
  readonly key: string | null;
  readonly photos: readonly PagePhoto[];
  readonly recorded: Recorded;
  /** What was asked for with `--return`: nodes and boxes, as in {@link PageBox.children}. */
  readonly picked: readonly number[];
  /** Why the model takes no photo; null if it does. */
  readonly noPhotos: string | null;
  /** How photos are prepared. */
  readonly photoNote: string;
  readonly photoCode: PhotoCode;
}
