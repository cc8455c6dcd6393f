/** Tars that come as streams: from a pipe, from a named pipe, and from a server, by the lines of a list. */
import { execFileSync } from 'node:child_process';
import { createReadStream, createWriteStream, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../../models/resnet.js';
import { countInputs } from '../../../../src/datasets/sources/count-inputs.js';
import { openSource, type EmbedSource } from '../../../../src/datasets/sources/open-source.js';
import { SOURCE_DEFAULTS } from '../../../../src/photos/feeds/items/source-options.js';
import { fileOf } from '../../../../src/photos/feeds/items/source-item.js';
import { makeTar } from '../../../support/archives.js';
import { startServer } from '../../../support/file-server.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const names = ['city/city-0', 'city/city-1', 'sea/sea-0', 'sea/sea-1', 'flower/flower-0', 'flower/flower-1'];
const photoOf = (name: string): Buffer => readFileSync(projectPath(`examples/photos/${name}.jpg`));
/** Samples as WebDataset packs them: files of one key follow each other. */
const shardOf = (from: number, to: number): Promise<Buffer> =>
  makeTar(
    names.slice(from, to).flatMap((name, at) => {
      const key = String(from + at).padStart(6, '0');
      return [
        { name: `${key}.jpg`, bytes: photoOf(name) },
        { name: `${key}.cls`, bytes: Buffer.from(String(at)) },
        { name: `${key}.json`, bytes: Buffer.from('{}') },
      ];
    }),
  );
const shards = [await shardOf(0, 2), await shardOf(2, 4), gzipSync(await shardOf(4, 6))];
const files = ['00000.tar', '00001.tar', '00002.tar.gz'];
for (const [at, file] of files.entries()) writeFileSync(join(scratch, file), shards[at]!);
const KEYS = names.map((_, at) => `${String(at).padStart(6, '0')}.jpg`);

const { url, requests } = await startServer((request, response) => {
  const at = files.findIndex((file) => request.url!.startsWith(`/${file}`));
  if (request.url!.includes('cut')) {
    response.writeHead(200, { 'content-length': shards[0]!.length });
    response.write(shards[0]!.subarray(0, -3000), () => response.destroy());
  } else if (at < 0) response.writeHead(404).end();
  else response.end(shards[at]);
});

async function namesOf(source: EmbedSource): Promise<string[]> {
  const found: string[] = [];
  for await (const item of openSource(source, { ...SOURCE_DEFAULTS, allowHttp: true })) {
    const bytes = await fileOf(item);
    expect(Buffer.from(bytes as Uint8Array)).toEqual(photoOf(names[KEYS.indexOf(item.path!.slice(-10))]!));
    found.push(item.path!);
  }
  return found;
}

describe('a tar as a stream', () => {
  it.each(files)('is read once, plain or gzipped: %s', async (file) => {
    const at = 2 * files.indexOf(file);
    const paths = createReadStream(join(scratch, file), { highWaterMark: 700 });
    expect(await namesOf({ paths, format: 'tar' })).toEqual(KEYS.slice(at, at + 2));
  });

  it.skipIf(process.platform === 'win32')('comes through a named pipe', async () => {
    const pipe = join(scratch, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const writing = pipeline(Readable.from([shards[1]!]), createWriteStream(pipe));
    expect(await namesOf(pipe)).toEqual(KEYS.slice(2, 4));
    await writing;
  });

  it('that is none, or is cut off, ends the run after what came before', async () => {
    await expect(namesOf({ paths: Readable.from([Buffer.alloc(2000, 'x')]), format: 'tar' })).rejects.toThrow(
      /"the stream" cannot be embedded: there is no tar header at byte 0/,
    );
    const cut = { paths: Readable.from([shards[0]!.subarray(0, -3000)]), format: 'tar' } as const;
    await expect(namesOf(cut)).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
  });
});

describe('a list of tars', () => {
  const list = join(scratch, 'list.txt');
  writeFileSync(list, `${url}/00000.tar?X-Amz-Signature=secret\n00001.tar\n${url}/00002.tar.gz\n`);
  const expected = [
    ...KEYS.slice(0, 2).map((key) => `${url}/00000.tar/${key}`),
    ...KEYS.slice(2, 4).map((key) => `00001.tar/${key}`),
    ...KEYS.slice(4, 6).map((key) => `${url}/00002.tar.gz/${key}`),
  ];

  it('gives the images of each, named by the tar and the entry', async () => {
    expect(await namesOf(list)).toEqual(expected);
    // Counting reads no tar.
    const before = requests.length;
    const options = { ...SOURCE_DEFAULTS, allowHttp: true };
    expect(await countInputs(list, options, new AbortController().signal)).toBeNull();
    expect(requests).toHaveLength(before);
  });

  it('ends where a server does not give a tar, or not whole', async () => {
    for (const name of ['none.tar', '00000.tar?cut=1'])
      await expect(namesOf([`${url}/${name}`])).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    await expect(namesOf([`${url}/none.tar`])).rejects.toThrow('answers 404');
  });
});

describe('datasets of streamed tars', () => {
  const model = join(scratch, 'model.onnx');
  writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes);
  const transform = { resize: 72, crop: 64 };
  const opening = createFeatureExtractor(model, { avgpool: 'vector' });
  afterAll(async () => (await opening).close());

  it('equal those of the files, from a server and from standard input', async () => {
    const extractor = await opening;
    const vectors = async (out: string): Promise<[string, Float32Array][]> => {
      const found: [string, Float32Array][] = [];
      for await (const { path, vector } of (await openDataset(out)).vectors('vector'))
        found.push([path!.slice(-10), vector]);
      return found;
    };
    const [ofFiles, ofUrls, ofInput] = ['files', 'urls', 'input'].map((name) => join(scratch, name));
    await embedFolder(extractor, join(scratch, '0000{0..1}.tar'), { out: ofFiles!, transform, batch: 2 });
    const urls = files.slice(0, 2).map((file) => `${url}/${file}`);
    const made = await embedFolder(extractor, urls, { out: ofUrls!, transform, batch: 2, allowHttp: true });
    expect(made.manifest.counts).toEqual({ inputs: 4, ok: 4, errors: 0 });
    expect(made.unreadFiles).toEqual({ 'other file': 8 });
    expect(await vectors(ofUrls!)).toEqual(await vectors(ofFiles!));
    const again = await embedFolder(extractor, urls, { out: ofUrls!, transform, batch: 2, allowHttp: true });
    expect(again).toMatchObject({ embedded: 0, skipped: 4 });
    const flags = ['--model', model, '--return', 'avgpool=vector', '--transform', JSON.stringify(transform)];
    const ran = await runTapir(
      ['embed', '-', '--set', 'inputFormat=tar', '--batch', '2', '--out', ofInput!, ...flags],
      { input: shards[0]! },
    );
    expect(ran).toMatchObject({ code: 0 });
    expect(await vectors(ofInput!)).toEqual((await vectors(ofFiles!)).slice(0, 2));
  });
});
