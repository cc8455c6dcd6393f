/** What the page is given as JSON, beside its text. Arrays of numbers are little-endian bytes in base64. */

/** The sampled images; all lists have their order. */
export interface PageImages {
  /** To be shown: what could act on a reader's text is spelt out. */
  readonly names: readonly string[];
  readonly rows: readonly number[];
  /** Width and height of the file's image, in pixels. */
  readonly sizes: readonly (readonly [number, number] | null)[];
  /** WebP in base64; null where the file could not be read. */
  readonly thumbnails: readonly (string | null)[];
  /** Place in {@link PageData.folders}; null if there is nothing to tell apart. */
  readonly folders: readonly number[] | null;
}

/** An output: its points are the images in `members`. */
export interface PageOutput {
  readonly key: string;
  /** Uint16: the image of each point. */
  readonly members: string;
  /** Float32: x and y of each point. */
  readonly pca: string;
  readonly umap: string | null;
  /** Shares of the variance, as text of the map's caption. */
  readonly pcaNote: string;
  readonly umapNote: string;
  /** Neighbours of each point. */
  readonly neighbourCount: number;
  /** Uint16: points. */
  readonly neighbours: string;
  /** Float32: their cosine distances. */
  readonly neighbourDistances: string;
  /** Uint16: pairs of points, the nearest pair first. */
  readonly forest: string;
  /** Float32: cosine distance of each pair. */
  readonly forestDistances: string;
  /** Uint16: points with the same number have the same features, bit for bit. */
  readonly sameAs: string;
  /** Cosine distance up to which points count as near-duplicates at first. */
  readonly duplicateDistance: number;
}

/** All of it. */
export interface PageData {
  readonly images: PageImages;
  /** Names of the legend. */
  readonly folders: readonly string[];
  readonly outputs: readonly PageOutput[];
}
