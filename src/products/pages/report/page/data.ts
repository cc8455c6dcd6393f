/** The JSON that the page carries beside its text. Arrays of numbers are little-endian bytes in base64. */

/** What the map can be coloured by: a class or a number for each image, or for each point of an output. */
export type PageColumn =
  | {
      readonly name: string;
      /** The classes by name, safe to show; the last may stand for all others, and for images without a class. */
      readonly names: readonly string[];
      /** Uint16: places among the names. */
      readonly places: string;
    }
  | {
      readonly name: string;
      /** Float32; NaN for none. */
      readonly values: string;
      /** Of a column of times: the values are seconds after this one, which is in milliseconds since 1970. */
      readonly since?: number;
    };

/** The images on the map. All lists have the same order. */
export interface PageImages {
  /** Safe to show: characters that could disguise a name are spelled out. */
  readonly names: readonly string[];
  readonly rows: readonly number[];
  /** Width and height of the image in its file, in pixels. */
  readonly sizes: readonly (readonly [number, number] | null)[];
  /** The paths that are not shown as they are, by the place of the image. */
  readonly paths: Readonly<Record<number, string>>;
  /** WebP in base64, by the place of the image; those of a sample, where the files could be read. */
  readonly thumbnails: Readonly<Record<number, string>>;
}

/** The answer to a question for a picture. */
export interface PagePicture {
  /** WebP in base64; null if the file could not be read. */
  readonly picture: string | null;
}

/** An output. Its points are the images in `members`. */
export interface PageOutput {
  readonly key: string;
  /** Uint32: the image of each point; those that were compared with each other come first. */
  readonly members: string;
  /** How many points were compared with each other. */
  readonly compared: number;
  /** What belongs to the vectors: clusters, distances, lengths. */
  readonly columns: readonly PageColumn[];
  /** Float32: x and y of each point. */
  readonly pca: string;
  readonly umap: string | null;
  /** Captions of the map. */
  readonly pcaNote: string;
  readonly umapNote: string;
  /** Number of neighbours of each point. */
  readonly neighbourCount: number;
  /** Uint16: the nearest compared points of each point. */
  readonly neighbours: string;
  /** Float32: their cosine distances. */
  readonly neighbourDistances: string;
  /** Uint16: pairs of compared points, the nearest pair first. */
  readonly forest: string;
  /** Float32: cosine distance of each pair. */
  readonly forestDistances: string;
  /** Uint16: compared points with the same number have the same features, bit for bit. */
  readonly sameAs: string;
  /** Initial cosine distance up to which points count as near-duplicates. */
  readonly duplicateDistance: number;
}

/** What a served page can ask its command. */
export interface PageServer {
  readonly key: string;
  readonly takesTexts: boolean;
  readonly takesPhotos: boolean;
}

/** A result of a search. */
export interface PageHit {
  /** Safe to show. */
  readonly name: string;
  readonly row: number;
  readonly cosine: number;
  /** WebP in base64; null if the file could not be read. */
  readonly picture: string | null;
}

/** The answer to a search. */
export interface PageHits {
  /** The photo that was searched for, as WebP in base64; null for none. */
  readonly photo: string | null;
  /** The nearest first. */
  readonly hits: readonly PageHit[];
}

/** All data of the page. */
export interface PageData {
  readonly images: PageImages;
  /** What belongs to the images: folders, labels, sizes. */
  readonly columns: readonly PageColumn[];
  readonly outputs: readonly PageOutput[];
  /** Null for a page that is a file, which can ask nothing. */
  readonly server: PageServer | null;
}
