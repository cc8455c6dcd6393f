/**
 * Which kinds of photos are taken where: the table of photo-kinds.md, which its test walks. Each cell is the vector, pixels or map of a photo
 * given in one way, against that of its file; a cell that differs, or that is refused, is a hole.
 */
import { createReadStream, readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { fileURLToPath, pathToFileURL } from 'node:url';
import sharp from 'sharp';
import {
  embedFolder,
  embedImages,
  embedStream,
  loadClip,
  loadImage,
  loadTiles,
  openDataset,
  type Embedded,
  type FeatureExtractor,
  type ImageSource,
} from 'onnx-tapir';
import { searchDataset } from 'onnx-tapir/features';

/** A photo without loss, as a file and as an address. */
export interface PhotoAt {
  readonly path: string;
  readonly url: string;
}

/** The ways to give one photo. Streams and answers are read once, so each is made anew. */
export const KINDS: Readonly<Record<string, (photo: PhotoAt) => ImageSource | Promise<ImageSource>>> = {
  path: ({ path }) => path,
  '`file:` URL': ({ path }) => pathToFileURL(path),
  'http(s) URL': ({ url }) => new URL(url),
  'http(s) address': ({ url }) => url,
  '`data:` URL': ({ path }) => `data:image/png;base64,${readFileSync(path, 'base64')}`,
  Buffer: ({ path }) => readFileSync(path),
  Uint8Array: ({ path }) => new Uint8Array(readFileSync(path)),
  ArrayBuffer: ({ path }) => new Uint8Array(readFileSync(path)).buffer,
  Blob: ({ path }) => new Blob([readFileSync(path)]),
  'File (of a form)': ({ path }) => new File([readFileSync(path)], 'photo.png'),
  Response: ({ url }) => fetch(url),
  'web stream': ({ path }) => new Blob([readFileSync(path)]).stream(),
  'stream of Node.js': ({ path }) => createReadStream(path),
  '`{ data, width, height }`': async ({ path }) => (await decoded(path)).rgb,
  '… with 4 channels': async ({ path }) => (await decoded(path)).rgba,
  'sharp’s `{ data, info }`': ({ path }) => sharp(path).raw().toBuffer({ resolveWithObject: true }),
  ImageData: async ({ path }) => {
    const { data, width, height } = (await decoded(path)).rgba;
    return { data: new Uint8ClampedArray(data), width, height };
  },
};

async function decoded(path: string): Promise<Record<'rgb' | 'rgba', Frame>> {
  const of = async (image: ReturnType<typeof sharp>): Promise<Frame> => {
    const { data, info } = await image.raw().toBuffer({ resolveWithObject: true });
    return { data, width: info.width, height: info.height };
  };
  return { rgb: await of(sharp(path)), rgba: await of(sharp(path).ensureAlpha()) };
}

interface Frame {
  readonly data: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** What the places need. */
export interface Bench {
  readonly extractor: FeatureExtractor<'vector', 'float32'>;
  readonly model: string;
  /** The photo's file. */
  readonly photo: string;
  readonly transform: { readonly resize: number; readonly crop: number };
  /** A folder that does not exist. */
  readonly out: (name: string) => string;
}

type Result = Uint8Array | Float32Array;
/** What a place gives for each of some photos. */
type Place = (photos: readonly ImageSource[], bench: Bench) => Promise<Result[]>;

const each =
  (take: (photo: ImageSource, bench: Bench) => Promise<Result>): Place =>
  async (photos, bench) => {
    const results: Result[] = [];
    for (const photo of photos) results.push(await take(photo, bench));
    return results;
  };

async function vectorsOf(rows: AsyncIterable<Embedded<'vector'>>): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for await (const { features, error } of rows) {
    if (error) throw error;
    vectors.push(features.vector.data);
  }
  return vectors;
}

function nameOf(photo: ImageSource): string {
  return photo instanceof URL && photo.protocol === 'file:' ? fileURLToPath(photo) : String(photo as string);
}

async function* oneByOne(photos: readonly ImageSource[]): AsyncGenerator<ImageSource> {
  yield* photos;
}

/** The calls that take a photo. */
export const PLACES: Readonly<Record<string, Place>> = {
  embed: each((photo, { extractor }) => extractor.embed(photo)),
  'embed, of a list': (photos, { extractor }) => extractor.embed(photos),
  loadImage: each(async (photo, { transform }) => (await loadImage(photo, transform)).data),
  'run, of loadImage': each(
    async (photo, { extractor, transform }) =>
      (await extractor.run(await loadImage(photo, transform))).vector.data,
  ),
  loadClip: each(async (photo, { transform }) => (await loadClip([photo], transform)).toTensor().data),
  loadTiles: each(async (photo, { transform }) => {
    for await (const { data } of loadTiles(photo, transform, { size: 64 })) return data;
    throw new Error('no tile');
  }),
  'embedImages, of a list': (photos, { extractor }) =>
    vectorsOf(embedImages(extractor, photos, { allowHttp: true })),
  'embedImages, of a generator': (photos, { extractor }) =>
    vectorsOf(embedImages(extractor, oneByOne(photos), { allowHttp: true })),
  embedStream: (photos, { extractor }) => {
    const stream = embedStream(extractor, { allowHttp: true });
    Readable.from(photos.map((image) => ({ image }))).pipe(stream);
    return vectorsOf(stream);
  },
  embedFolder: async (photos, { extractor, out }) => {
    const folder = out('dataset');
    await embedFolder(extractor, photos, { out: folder, allowHttp: true });
    const dataset = await openDataset(folder);
    // A photo that is named twice has one row.
    const rows = new Map<string | null, Float32Array>();
    for await (const { path, vector } of dataset.vectors('vector')) rows.set(path, vector);
    return photos.map((photo, at) => rows.get(`#${at}`) ?? rows.get(nameOf(photo))!);
  },
  searchDataset: async (images, { extractor, model, photo, out }) => {
    const folder = out('searched');
    await embedFolder(extractor, [photo], { out: folder });
    // One query of all: its cosine is 1 only if each has the vector of the file.
    const [hits] = await searchDataset(await openDataset(folder), { images }, { model });
    return images.map(() => Float32Array.of(Number(hits![0]!.score.toFixed(6))));
  },
};

/** The table as Markdown. */
export function describeKinds(): string {
  const places = [...Object.keys(PLACES), 'attribute'];
  const rows = Object.keys(KINDS).map((kind) => `| ${kind} | ${places.map(() => 'yes').join(' | ')} |`);
  return [
    '# Kinds of photos, and where they are taken',
    '',
    'Each cell is tested: the result is that of the file, bit for bit. `compareModels`, `quantizeModel`, `classifyImages`, `createTrainer` and other calls that read',
    'folders and lists take photos as `embedImages` does; a call that reads a list takes http(s) addresses with `allowHttp`.',
    '',
    `| a photo as | ${places.join(' | ')} |`,
    `| --- | ${places.map(() => '---').join(' | ')} |`,
    ...rows,
    '',
  ].join('\n');
}
