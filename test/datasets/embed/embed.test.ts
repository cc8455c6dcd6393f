import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import sharp from 'sharp';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  embedImages,
  type FeatureExtractor,
  type Manifest,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { makeTar } from '../../support/archives.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { chain, modelBytes } from '../../support/graphs.js';
import { readNpy } from '../../support/npy.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
let extractor: FeatureExtractor<'embedding' | 'map/4'>;

beforeAll(async () => {
  cpSync(projectPath('examples/photos'), photos, {
    recursive: true,
    filter: (file) => !file.endsWith('.ts'),
  });
  copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'dunes/cut.jpg'));
  copyFileSync(fixturePath('preprocess/bad/bomb_32768x32768.png'), join(photos, 'bomb.png'));
  writeFileSync(join(photos, 'zero.jpg'), '');
  extractor = await createFeatureExtractor(model, { avgpool: 'embedding', layer4: 'map/4' });
});
afterAll(() => extractor.close());

const readRows = async (out: string, file: string): Promise<Record<string, unknown>[]> =>
  parquetReadObjects({ file: await asyncBufferFromFile(join(out, file)) });

describe('embedImages', () => {
  it('gives features or the error of each image, in order', async () => {
    const all = [];
    for await (const item of embedImages(extractor, photos, { batch: 5 })) all.push(item);
    expect(all.map(({ index }) => index)).toEqual(all.map((_, i) => i));
    const paths = all.map(({ path }) => path ?? '');
    expect(paths).toEqual(paths.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    const failed = all.filter(({ error }) => error).map(({ path, error }) => [path, error?.code]);
    expect(failed).toEqual([
      ['bomb.png', 'IMAGE_TOO_LARGE'],
      ['dunes/cut.jpg', 'IMAGE_TRUNCATED'],
      ['zero.jpg', 'IMAGE_EMPTY'],
    ]);
    const first = all.find(({ features }) => features);
    expect(first?.features?.embedding).toMatchObject({ dtype: 'float32', dims: [128] });
    expect(first?.features?.['map/4'].dims).toEqual([128, 7, 7]);
  });

  it('does not depend on the batch, nor on failures beside an image', async () => {
    const files = ['sea/sea-0.jpg', 'zero.jpg', 'city/city-0.jpg'].map((file) => join(photos, file));
    const vectors = async (batch: number): Promise<unknown[]> => {
      const rows = [];
      for await (const { features } of embedImages(extractor, files, { batch }))
        rows.push(features?.embedding.data);
      return rows;
    };
    expect(await vectors(1)).toEqual(await vectors(3));
  });

  it('runs a graph whose exporter fixed a batch of 1 inside, without a word, image by image', async () => {
    const flat = modelBytes({
      inputs: [{ name: 'x', dims: ['batch', 3, 8, 8] }],
      outputs: [{ name: 'y', dims: ['batch', 192] }],
      initializers: { shape: { dims: [2], values: [1, -1], elemType: 'int64' } },
      nodes: [{ op: 'Reshape', inputs: ['x', 'shape'], outputs: ['y'] }],
    });
    await using baked = await createFeatureExtractor(flat, ['y']);
    const transform = createTransform({ resize: 8, crop: 8, mean: [0, 0, 0], std: [1, 1, 1] });
    const vectors = async (batch: number): Promise<unknown[]> => {
      const rows = [];
      for await (const { features } of embedImages(baked, photos, { batch, transform }))
        rows.push(features?.y.data);
      return rows;
    };
    const single = await vectors(1);
    expect(single.filter((row) => row !== undefined).length).toBeGreaterThan(4);
    expect(await vectors(4)).toEqual(single);
  });

  it('takes bytes and asynchronous sources, and keeps dims if asked', async () => {
    async function* source(): AsyncGenerator<Uint8Array> {
      yield readFileSync(join(photos, 'sea/sea-0.jpg'));
      yield Buffer.from('no image');
    }
    const items = [];
    for await (const item of embedImages(extractor, source(), { keepDims: true })) items.push(item);
    expect(items[0]).toMatchObject({ path: null, features: { embedding: { dims: [128, 1, 1] } } });
    expect(items[1]?.error?.code).toBe('IMAGE_UNREADABLE');
  });

  it('stops early without trouble', async () => {
    for await (const { index } of embedImages(extractor, photos, { batch: 2 })) if (index === 1) break;
    const abort = new AbortController();
    const run = async (): Promise<void> => {
      for await (const { index } of embedImages(extractor, photos, { batch: 2, signal: abort.signal })) {
        if (index === 1) abort.abort(new Error('enough'));
      }
    };
    await expect(run()).rejects.toThrow('enough');
  });

  it.each([
    [
      'a transform of another size',
      { transform: createTransform({ resize: 64, crop: 64 }) },
      /option "transform"/,
    ],
    ['a transform without a fixed size', { transform: createTransform({ crop: null }) }, /same size/],
    ['a batch of 5000', { batch: 5000 }, /batch/],
    ['an unknown option', { batchSize: 2 }, /batchSize/],
  ])('refuses %s', async (_what, options, message) => {
    const first = embedImages(extractor, photos, options as object).next();
    await expect(first).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(first).rejects.toThrow(message);
  });

  it('refuses a model without an image input, and sources that are none', async () => {
    const other = await createFeatureExtractor(modelBytes(chain(1)), ['t1']);
    await expect(embedImages(other, photos).next()).rejects.toThrow(/single image input/);
    await other.close();
    for (const source of [7, null, new Uint8Array(3), [7]]) {
      await expect(embedImages(extractor, source as unknown as string).next()).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      });
    }
  });
});

describe('embedFolder', () => {
  it('records what a fast mode has done to the pixels, and the sizes of the files', async () => {
    const source = join(scratch, 'large');
    mkdirSync(source);
    const large = sharp(join(photos, 'sea/sea-0.jpg')).resize(2001, 1503, { fit: 'fill' });
    await large.jpeg({ quality: 90 }).toFile(join(source, 'large.jpg'));
    copyFileSync(join(photos, 'sea/sea-0.jpg'), join(source, 'small.jpg'));
    const out = join(scratch, 'fast');
    const { manifest } = await embedFolder(extractor, source, {
      out,
      transform: createTransform({ decode: 'fast' }),
    });
    expect(manifest.transform.decode).toBe('fast');
    const { images, deviation } = manifest.run.reduced!;
    expect([images, deviation!.images]).toEqual([1, 1]);
    expect(deviation!.mean).toBeGreaterThan(0);
    expect(deviation!.mean).toBeLessThan(0.5);
    const [row] = await readRows(out, 'metadata/metadata-00000.parquet');
    expect(row).toMatchObject({ path: 'large.jpg', width: 2001, height: 1503 });
    const exact = await embedFolder(extractor, source, { out: join(scratch, 'exact') });
    expect(exact.manifest.run.reduced).toBeNull();
    const features = (folder: string): Buffer =>
      readFileSync(join(scratch, folder, 'features/embedding/embedding-00000.npy'));
    expect(features('fast').equals(features('exact'))).toBe(false);
  });

  it('writes features, a metadata row per input, and the manifest', async () => {
    const out = join(scratch, 'dataset');
    const progress: number[] = [];
    const summary = await embedFolder(extractor, photos, {
      out,
      batch: 4,
      onProgress: ({ done }) => progress.push(done),
    });
    expect(progress.at(-1)).toBe(27);
    expect(summary.manifest.counts).toEqual({ inputs: 27, ok: 24, errors: 3 });
    expect(summary.failures.map(({ path }) => path)).toEqual(['bomb.png', 'dunes/cut.jpg', 'zero.jpg']);
    const onDisk = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Manifest;
    expect(onDisk).toEqual(summary.manifest);
    expect(onDisk).toMatchObject({
      format: 'onnx-tapir dataset',
      model: { bytes: model.byteLength, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      request: [
        { request: 'avgpool', key: 'embedding' },
        { request: 'layer4', key: 'map/4' },
      ],
      transform: { preset: 'ImageNet1K_V1', resize: 256, orientation: 'ignore' },
      run: { device: 'cpu', batch: 4 },
      features: {
        embedding: { folder: 'features/embedding', rows: 24, dtype: 'float32', dims: [128] },
        'map/4': { folder: 'features/map%2F4', rows: 24, dims: [128, 7, 7] },
      },
    });
    expect(readdirSync(out).toSorted()).toEqual(['features', 'journal.jsonl', 'manifest.json', 'metadata']);

    const rows = await readRows(out, 'metadata/metadata-00000.parquet');
    const array = readNpy(join(out, 'features/embedding/embedding-00000.npy'));
    expect(array.dims).toEqual([24, 128]);
    expect(rows).toHaveLength(27);
    expect(rows[0]).toEqual({
      path: 'bomb.png',
      status: 'error',
      row: null,
      error_code: 'IMAGE_TOO_LARGE',
      error_message: expect.stringContaining('pixels'),
      width: null,
      height: null,
      size_bytes: BigInt(statSync(join(photos, 'bomb.png')).size),
      modified: new Date(Math.floor(statSync(join(photos, 'bomb.png')).mtimeMs)),
      sha256: null,
      content_digest: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    const sea = rows.find(({ path }) => path === 'sea/sea-0.jpg')!;
    expect(sea).toMatchObject({ status: 'ok', error_code: null, width: 400, height: 300 });
    const { value: alone } = await embedImages(extractor, [join(photos, 'sea/sea-0.jpg')]).next();
    const at = Number(sea['row']) * 128;
    expect((array.data as Float32Array).slice(at, at + 128)).toEqual(alone?.features?.embedding.data);
  });

  it('gives the same features whatever the batch and the shards', async () => {
    const features = async (options: object): Promise<Float32Array> => {
      const out = join(scratch, `same-${JSON.stringify(options).replace(/\W+/g, '-')}`);
      const { manifest } = await embedFolder(extractor, photos, { out, ...options });
      const parts = manifest.shards.flatMap((shard) => shard.features['embedding'] ?? []);
      const arrays = parts.map((part) => readNpy(join(out, part)).data as Float32Array);
      expect(manifest.shards.map(({ firstRow }) => firstRow)).toEqual(
        manifest.shards.map((_, i) => manifest.shards.slice(0, i).reduce((sum, { rows }) => sum + rows, 0)),
      );
      return Float32Array.from(arrays.flatMap((array) => Array.from(array)));
    };
    const one = await features({ batch: 8 });
    expect(await features({ batch: 3, shardSize: 7 })).toEqual(one); // Raised to 9, a multiple of the batch.
    expect(one.length).toBe(24 * 128);
  });

  it('gives the same features on several devices, each with whole batches', async () => {
    const request = { avgpool: 'embedding', layer4: 'map/4' } as const;
    const devices = ['cpu:0', 'cpu:1'] as const;
    const parallel = await createFeatureExtractor(model, request, { devices });
    const one = join(scratch, 'one-device');
    const two = join(scratch, 'two-devices');
    await embedFolder(extractor, photos, { out: one, batch: 4 });
    const { manifest } = await embedFolder(parallel, photos, { out: two, batch: 4 });
    expect(manifest.run.device).toBe('cpu:0, cpu:1');
    const file = 'features/embedding/embedding-00000.npy';
    expect(readFileSync(join(two, file)).equals(readFileSync(join(one, file)))).toBe(true);
    // The decoder words the failure of a cut image differently from time to time.
    const rowsOf = async (out: string): Promise<unknown> =>
      (await readRows(out, 'metadata/metadata-00000.parquet')).map(({ path, row, status, error_code }) => [
        path,
        row,
        status,
        error_code,
      ]);
    expect(await rowsOf(two)).toEqual(await rowsOf(one));
    expect(Math.min(...parallel.replicas.map(({ runs }) => runs))).toBeGreaterThan(0);
    await parallel.close();
  });

  it('writes float16', async () => {
    const out = join(scratch, 'half');
    const { manifest } = await embedFolder(extractor, photos, { out, dtype: 'float16' });
    expect(manifest.features['embedding']?.dtype).toBe('float16');
    expect(readNpy(join(out, 'features/embedding/embedding-00000.npy'))).toMatchObject({
      dtype: 'float16',
      dims: [24, 128],
    });
  });

  it('is unfinished until the manifest is there', async () => {
    const out = join(scratch, 'stopped');
    const abort = new AbortController();
    const run = embedFolder(extractor, photos, {
      out,
      batch: 4,
      shardSize: 4,
      signal: abort.signal,
      onProgress: ({ done }) => done >= 8 && abort.abort(new Error('stop')),
    });
    await expect(run).rejects.toThrow('stop');
    expect(existsSync(join(out, 'manifest.json'))).toBe(false);
    expect(readdirSync(out, { recursive: true }).some((file) => String(file).endsWith('.partial'))).toBe(
      false,
    );
    const { manifest } = await embedFolder(extractor, photos, { out, batch: 8 });
    expect(readdirSync(join(out, 'metadata'))).toHaveLength(manifest.shards.length);
  });

  it('starts over only if told to, and never writes among anything else', async () => {
    const out = join(scratch, 'dataset');
    const journal = (): string => readFileSync(join(out, 'journal.jsonl'), 'utf8');
    const before = journal();
    await expect(embedFolder(extractor, photos, { out })).resolves.toMatchObject({
      embedded: 3,
      skipped: 24,
    });
    expect(journal()).toBe(before);
    await expect(embedFolder(extractor, photos, { out, overwrite: true })).resolves.toMatchObject({
      embedded: 27,
      skipped: 0,
    });
    expect(journal()).not.toBe(before);
    const other = join(scratch, 'other');
    mkdirSync(join(other, 'features'), { recursive: true });
    writeFileSync(join(other, 'manifest.json'), '{"name":"a web app"}');
    for (const overwrite of [false, true]) {
      await expect(embedFolder(extractor, photos, { out: other, overwrite })).rejects.toMatchObject({
        code: 'OUTPUT_EXISTS',
      });
    }
    expect(readdirSync(other).toSorted()).toEqual(['features', 'manifest.json']);
  });

  it.runIf(existsSync('/proc/self/fd'))('closes an archive that it does not embed', async () => {
    const archive = join(scratch, 'held.tar');
    const name = readdirSync(photos, { recursive: true, encoding: 'utf8' }).find((file) =>
      file.endsWith('.jpg'),
    );
    writeFileSync(archive, await makeTar([{ name: 'a.jpg', bytes: readFileSync(join(photos, name!)) }]));
    const taken = join(scratch, 'occupied');
    mkdirSync(taken);
    writeFileSync(join(taken, 'mine'), '');
    for (let call = 0; call < 3; call++)
      await expect(embedFolder(extractor, archive, { out: taken })).rejects.toMatchObject({
        code: 'OUTPUT_EXISTS',
      });
    const open = readdirSync('/proc/self/fd').map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return ''; // The descriptor that lists the folder.
      }
    });
    expect(open).not.toContain(archive);
  });

  it('refuses an output whose rows differ from batch to batch, and leaves no dataset', async () => {
    const spec = {
      inputs: ['x'],
      outputs: ['y'],
      nodes: [
        { op: 'Flatten', inputs: ['x'], outputs: ['f'] },
        { op: 'Transpose', inputs: ['f'], outputs: ['t'] },
        { op: 'MatMul', inputs: ['f', 't'], outputs: ['y'] },
      ],
    };
    const bytes = Buffer.from(modelBytes(spec));
    // The only size "n" of the input becomes an image's.
    const onnx = (await import('onnx-proto')).default.onnx;
    const proto = onnx.ModelProto.decode(bytes);
    const dims = ['n', 3, 224, 224].map((size) =>
      typeof size === 'string' ? { dimParam: size } : { dimValue: size },
    );
    proto.graph!.input![0]!.type!.tensorType!.shape!.dim = dims;
    proto.graph!.output![0]!.type!.tensorType!.shape = null;
    const gram = await createFeatureExtractor(onnx.ModelProto.encode(proto).finish(), ['y']);
    const out = join(scratch, 'gram');
    await expect(embedFolder(gram, photos, { out, batch: 5 })).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
    });
    await gram.close();
    expect(existsSync(join(out, 'manifest.json'))).toBe(false);
  });

  it('refuses a folder that another run is writing to', async () => {
    const out = join(scratch, 'taken');
    const run = embedFolder(extractor, photos, { out });
    // One of the two is first.
    const settled = await Promise.allSettled([run, embedFolder(extractor, photos, { out })]);
    const refused = settled.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
    expect(refused.reason).toMatchObject({
      code: 'OUTPUT_LOCKED',
      message: expect.stringMatching(/another run/),
    });
    expect(settled.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  it('refuses before it writes anything', async () => {
    const out = join(scratch, 'never');
    const empty = join(scratch, 'empty');
    mkdirSync(empty);
    await expect(embedFolder(extractor, empty, { out })).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/no image/),
    });
    await expect(embedFolder(extractor, join(scratch, 'none'), { out })).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
    });
    await expect(embedFolder(extractor, photos, { out, dtype: 'float8' as 'float16' })).rejects.toMatchObject(
      { code: 'OPTION_INVALID' },
    );
    await expect(embedFolder(extractor, photos, { out: '' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
    expect(existsSync(out)).toBe(false);
    const file = join(scratch, 'file');
    writeFileSync(file, '');
    await expect(embedFolder(extractor, photos, { out: join(file, 'x') })).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
  });

  it('takes a model of a fixed batch, and refuses an output without rows', async () => {
    const fixed = Buffer.from(model);
    const at = fixed.indexOf(Buffer.from([0x0a, 0x07, 0x12, 0x05, ...Buffer.from('batch')]));
    expect(at).toBeGreaterThan(0);
    // The symbolic size becomes the number 5, padded to the same length by an empty denotation.
    for (
      let i = fixed.indexOf('\u0012\u0005batch', 0, 'latin1');
      i >= 0;
      i = fixed.indexOf('\u0012\u0005batch', i, 'latin1')
    ) {
      fixed.set([0x08, 0x05, 0x1a, 0x03, 0x20, 0x20, 0x20], i);
    }
    const five = await createFeatureExtractor(fixed, { avgpool: 'embedding' });
    expect(five.inputs[0]?.dims?.[0]).toBe(5);
    const { manifest } = await embedFolder(five, photos, { out: join(scratch, 'fixed'), batch: 8 });
    await five.close();
    expect(manifest.counts.ok).toBe(24);
    const a = readNpy(join(scratch, 'fixed/features/embedding/embedding-00000.npy'));
    const b = readNpy(join(scratch, 'dataset/features/embedding/embedding-00000.npy'));
    expect(a.data).toEqual(b.data);
    const weights = await createFeatureExtractor(model, ['conv1.weight', 'avgpool']);
    await expect(embedImages(weights, photos).next()).rejects.toMatchObject({ code: 'OUTPUT_NOT_BATCHED' });
    await weights.close();
  });
});

describe('an extractor that takes pixels', () => {
  it('is fed bytes, and gives the same features', async () => {
    const request = { avgpool: 'f' } as const;
    const session = { graphOptimizationLevel: 'disabled' } as const;
    const floats = await createFeatureExtractor(model, request, { session });
    const pixels = await createFeatureExtractor(model, request, { session, input: 'image-uint8' });
    const source = [join(photos, 'sea/sea-0.jpg'), join(photos, 'zero.jpg'), join(photos, 'city/city-0.jpg')];
    const rows = async (from: FeatureExtractor<'f'>): Promise<unknown[]> => {
      const list: unknown[] = [];
      for await (const { features, error } of embedImages(from, source, { batch: 2 }))
        list.push(features?.f.data ?? error?.code);
      return list;
    };
    expect(await rows(pixels)).toEqual(await rows(floats));
    await Promise.all([floats.close(), pixels.close()]);
  });

  it('refuses a transform that normalises otherwise than the graph', async () => {
    const input = { type: 'image-uint8', mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] } as const;
    const pixels = await createFeatureExtractor(model, ['fc'], { input });
    const attempt = async (): Promise<void> => {
      for await (const row of embedImages(pixels, photos)) void row;
    };
    await expect(attempt()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('0.5') as string,
    });
    const transform = createTransform({ mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] });
    const image = join(photos, 'sea/sea-0.jpg');
    for await (const { features } of embedImages(pixels, [image], { transform }))
      expect(features?.fc.dims).toEqual([10]);
    await pixels.close();
  });
});
