/** `tapir embed --out -`: rows on standard output, from paths, JSON lines and Arrow streams. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import { createFeatureExtractor, embedImages, openDataset } from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../../models/resnet.js';
import { arrowStream } from '../../../support/arrow-streams.js';
import { modelBytes } from '../../../support/graphs.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import {
  AUTO_TRANSFORM,
  runTapir,
  runTapirBytes,
  type Ended,
  type RunOptions,
} from '../../../support/run.js';

const bin = projectPath('dist/lib/bin.cjs');
const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
const photos = join(scratch, 'photos');
const sea = join(photos, 'sea/sea-0.jpg');
const city = join(photos, 'city/city-0.jpg');
const { version } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as { version: string };
const missing = join(photos, 'missing.jpg');
const command = ['--model', model, '--return', 'avgpool=embedding', '--set', 'threads=1'];
let vectors: Record<string, number[]>;

const wordsOf = (flags: string): string[] => flags.split(' ').filter((flag) => flag !== '');

const embed = (source: string, flags: string, options: RunOptions = {}): Promise<Ended> =>
  runTapir(['embed', source, ...command, '--out', '-', ...wordsOf(flags)], options);

/** The arguments of a command that reads and writes a pipe. */
const pipeArgs = (flags: string): string[] => [
  bin,
  'embed',
  '-',
  ...command,
  '--out',
  '-',
  ...wordsOf(flags),
];

/** The command with bytes at both ends. */
const pipe = (input: Uint8Array, flags: string): ReturnType<typeof runTapirBytes> =>
  runTapirBytes(pipeArgs(flags).slice(1), input);

type Row = Record<string, unknown>;
const rowsOf = (text: string): Row[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row);

beforeAll(async () => {
  writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
  cpSync(projectPath('examples/photos'), photos, {
    recursive: true,
    filter: (file) => !file.endsWith('.ts'),
  });
  await using extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
  vectors = {};
  for await (const { path, features } of embedImages(extractor, [sea, city]))
    vectors[path!] = [...(features!.embedding.data as Float32Array)];
});

/** What JSON lines say, as the floats they stand for. */
const floats = (value: unknown): number[] => (value as number[]).map(Math.fround);

describe('tapir embed --out -, JSON lines', () => {
  it('writes a row per path, in their order, and nothing else', async () => {
    const ended = await embed('-', '--format jsonl --batch 2', { input: `${sea}\n\n${missing}\n${city}` });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toBe(
      `${AUTO_TRANSFORM}1 of 3 images could not be embedded:\n  ${missing}: there is no such file (ENOENT) [IMAGE_NOT_FOUND]\n`,
    );
    const rows = rowsOf(ended.stdout);
    expect(rows.map(({ path, status }) => [path, status])).toEqual([
      [sea, 'ok'],
      [missing, 'error'],
      [city, 'ok'],
    ]);
    expect(rows[1]).toEqual({
      path: missing,
      status: 'error',
      error: {
        code: 'IMAGE_NOT_FOUND',
        message: `cannot read ${missing}: there is no such file (ENOENT); check its path`,
      },
    });
    expect(floats(rows[0]!['embedding'])).toEqual(vectors[sea]);
    expect(floats(rows[2]!['embedding'])).toEqual(vectors[city]);
  });

  it('carries the fields of JSON lines as they were written, nested by what the output has', async () => {
    const image = readFileSync(sea).toString('base64');
    const fields =
      '"id":9223372036854775807,"f":1.0,"text":"line\\nbreak 🐈 \\u00e9","none":null,"nest":{"a":[1,{"b":"}"}]}';
    const input = `{"image":"${image}",${fields}}\r\n{"path":${JSON.stringify(city)},"id":2}\n{"path":null}\n`;
    const ended = await embed('-', '--format jsonl --return layer4=map', { input });
    const [first, second, third] = ended.stdout.split('\n') as [string, string, string];
    expect(first.startsWith('{"path":null,"status":"ok","embedding":[')).toBe(true);
    expect(first.endsWith(`]]],${fields}}`)).toBe(true);
    const map = (JSON.parse(first) as { map: number[][][] }).map;
    expect([map.length, map[0]!.length, map[0]![0]!.length]).toEqual([128, 7, 7]);
    expect(second.endsWith(',"id":2}')).toBe(true);
    expect(JSON.parse(third)).toMatchObject({ path: null, status: 'error', error: { code: 'IMAGE_EMPTY' } });
  });

  it('is read by DuckDB and by jq', async () => {
    const file = join(scratch, 'rows.jsonl');
    const input = `{"path":"${sea}","label":"sea"}\n{"path":"${city}","label":"city"}\n{"path":"${missing}","label":null}\n`;
    const { stdout } = await embed('-', '--format jsonl', { input });
    writeFileSync(file, stdout);
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const reply = await connection.runAndReadAll(
      `SELECT label, status, error.code AS code, len(embedding) AS length, embedding[1] AS first FROM read_json_auto('${file}')`,
    );
    const rows = reply.getRowObjectsJson();
    const split = rows.map(({ first, ...row }) => [row, first === null ? null : Math.fround(Number(first))]);
    expect(split).toEqual([
      [{ label: 'sea', status: 'ok', code: null, length: '128' }, vectors[sea]![0]],
      [{ label: 'city', status: 'ok', code: null, length: '128' }, vectors[city]![0]],
      [{ label: null, status: 'error', code: 'IMAGE_NOT_FOUND', length: null }, null],
    ]);
    connection.closeSync();
    // Where there is no jq, JSON.parse has read the same above.
    if (!existsSync('/usr/bin/jq')) return;
    const shown = execFileSync('/usr/bin/jq', ['-c', '[.label, .status, (.embedding | length)]', file]);
    expect(shown.toString()).toBe('["sea","ok",128]\n["city","ok",128]\n[null,"error",0]\n');
  });

  it('takes folders, and names with line breaks', async () => {
    const folder = await embed(join(photos, 'sea'), '');
    expect(folder).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM });
    expect(rowsOf(folder.stdout).map(({ path }) => path)).toContain('sea-0.jpg');
    const odd = join(scratch, 'line\nbreak.jpg');
    cpSync(sea, odd);
    const named = await embed('-', '--format jsonl --set nulSeparated=true', { input: `${odd}\0${city}\0` });
    expect(rowsOf(named.stdout).map(({ path }) => path)).toEqual([odd, city]);
  });

  it('writes nothing for no input', async () => {
    // JSON lines are the default.
    expect(await embed('-', '', { input: '' })).toEqual({
      code: 0,
      signal: null,
      stdout: '',
      stderr: AUTO_TRANSFORM,
    });
  });

  it.each([
    ['no JSON', 'nonsense', 'line 3: it is not JSON'],
    ['no object', '[1]', 'line 3: it is not a JSON object'],
    [
      'no image',
      '{"id":1}',
      'line 3: it has no field "path" and no "image"; choose the field of the path with --column',
    ],
    ['no text', '{"path":5}', 'line 3: it has no text in the field "path"'],
    ['no base64', '{"image":"a*=="}', 'line 3: its field "image" holds no image in base64'],
    ['a field of the rows', '{"path":"a","status":1}', 'line 3: its field "status" has the name'],
    [
      'a field like an output',
      '{"path":"a","embedding":1}',
      'line 3: its field "embedding" has the name of the output',
    ],
  ])('ends at a line with %s, after the rows before it', async (_what, line, message) => {
    const input = `{"path":"${sea}"}\n{"path":"${missing}"}\n${line}\n`;
    const ended = await embed('-', '--format jsonl --batch 1', { input });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(`"standard input" cannot be embedded: ${message}`);
    expect(ended.stderr).toContain('[SOURCE_INVALID]');
    expect(rowsOf(ended.stdout).map(({ path }) => path)).toEqual([sea, missing]);
  });

  it.each([
    ['--format npy', '--format'],
    ['--format jsonl --json', '--json'],
    ['--format jsonl --overwrite', '--overwrite'],
    ['--format jsonl --remove-missing', '--remove-missing'],
    ['--format jsonl --set checksum=true', '--set checksum'],
    ['--format jsonl --set shardSize=5', '--set shardSize'],
    ['--format jsonl --shard 0/2', '--shard'],
    ['--format jsonl --return layer4=status', '--return'],
  ])('refuses %s', async (flags, flag) => {
    const ended = await embed('-', flags, { input: '' });
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain(`tapir: ${flag} must be `);
  });

  it('ends when too many images fail, after their rows', async () => {
    const ended = await embed('-', '--format jsonl --max-failures 1 --batch 1', {
      input: `${missing}\n`.repeat(5),
    });
    expect(ended.code).toBe(5);
    expect(rowsOf(ended.stdout).length).toBeGreaterThanOrEqual(2);
  });
});

describe('tapir embed --out -, Arrow', () => {
  const { vectorFromArray, Utf8 } = arrow;
  const ids = vectorFromArray([2n ** 62n, null, 3n], new arrow.Int64());

  it('writes a stream that another reader reads, float16 if asked to', async () => {
    const path = vectorFromArray([sea, missing, city], new Utf8());
    for (const dtype of ['float32', 'float16']) {
      const ended = await pipe(
        arrowStream({ path, id: ids }),
        `--format arrow --batch 2 --set dtype=${dtype} --return layer4=map`,
      );
      expect(ended).toMatchObject({ code: 1 });
      const table = arrow.tableFromIPC(ended.stdout);
      const names = ['id', 'path', 'status', 'error_code', 'error_message', 'embedding', 'map'];
      expect(table.schema.fields.map(({ name }) => name)).toEqual(names);
      expect([...table.getChild('id')!]).toEqual([2n ** 62n, null, 3n]);
      expect([...table.getChild('error_code')!]).toEqual([null, 'IMAGE_NOT_FOUND', null]);
      const rows = [...table.getChild('embedding')!].map(
        (row: Iterable<number> | null) => row && Array.from(row),
      );
      const close = (value: number): number =>
        (dtype === 'float32' ? value : expect.closeTo(value, 2)) as number;
      expect(rows).toEqual([vectors[sea]!.map(close), null, vectors[city]!.map(close)]);
      const map = table.schema.fields.at(-1)!;
      expect(JSON.parse(table.schema.metadata.get('onnx-tapir.transform')!)).toMatchObject({
        preset: 'ImageNet1K_V1',
        resize: 256,
      });
      expect(table.schema.metadata.get('onnx-tapir.version')).toBe(version);
      expect(map.metadata.get('ARROW:extension:name')).toBe('arrow.fixed_shape_tensor');
      expect(JSON.parse(map.metadata.get('ARROW:extension:metadata')!)).toEqual({ shape: [128, 7, 7] });
    }
  });

  it('takes the bytes of images, and writes a schema for no rows', async () => {
    const image = vectorFromArray([readFileSync(sea), null, readFileSync(city)], new arrow.Binary());
    const stream = arrowStream({ image, id: ids });
    const table = arrow.tableFromIPC((await pipe(stream, '--format arrow')).stdout);
    expect([...table.getChild('error_code')!]).toEqual([null, 'IMAGE_EMPTY', null]);
    expect([...(table.getChild('embedding')!.get(0) as Iterable<number>)]).toEqual(vectors[sea]);
    const empty = await pipe(
      arrow.tableToIPC(new arrow.Table(arrow.tableFromIPC(stream).schema), 'stream'),
      '--format arrow',
    );
    expect(empty).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM });
    expect(arrow.tableFromIPC(empty.stdout).schema.fields.map(({ name }) => name)).toEqual(
      table.schema.fields.map(({ name }) => name),
    );
    const none = arrow.tableFromIPC((await pipe(new Uint8Array(0), '--format arrow')).stdout);
    expect([none.numRows, none.schema.fields.length]).toEqual([0, 5]);
  });

  it('types the fields of JSON lines by the first rows, and refuses others', async () => {
    const line = (more: string): string => `{"path":"${sea}",${more}}\n`;
    const first = line('"i":9223372036854775807,"f":1.5,"b":true,"t":"x\\ny","j":{"a":[1]},"n":null');
    const ended = await pipe(Buffer.from(first + line('"i":null,"f":2')), '--format arrow --batch 2');
    const table = arrow.tableFromIPC(ended.stdout);
    const types = table.schema.fields.slice(0, 6).map(({ name, type }) => `${name} ${String(type)}`);
    expect(types).toEqual(['i Int64', 'f Float64', 'b Bool', 't Utf8', 'j Utf8', 'n Utf8']);
    const values = table.toArray().map((row) => (row as { toJSON(): Row }).toJSON());
    expect(values[0]).toMatchObject({
      i: 2n ** 63n - 1n,
      f: 1.5,
      b: true,
      t: 'x\ny',
      j: '{"a":[1]}',
      n: 'null',
    });
    expect(values[1]).toMatchObject({ i: null, f: 2, b: null, t: null, j: null, n: null });
    for (const [more, field, wrong] of [
      ['"i":1.5', 'i', 'has a value that is not int64'],
      ['"z":1', 'z', 'is missing in the first batch'],
    ]) {
      const misfit = await pipe(Buffer.from(first + line(more!)), '--format arrow --batch 1');
      expect(misfit.code).toBe(2);
      expect(misfit.stderr).toContain(`line 2: its field "${field}" ${wrong}`);
    }
  });

  it('ends with an error of its own at a stream that is cut off', async () => {
    const stream = arrowStream(
      { path: vectorFromArray([sea], new Utf8()) },
      { path: vectorFromArray([city], new Utf8()) },
    );
    const ended = await pipe(stream.subarray(0, -30), '--format jsonl');
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(/message 3 of the Arrow stream: it ends within .* \[SOURCE_INVALID\]\n$/);
    expect(rowsOf(ended.stdout.toString()).map(({ path }) => path)).toEqual([sea]);
  });
});

describe('tapir embed --out -, an output whose dims the model does not state', () => {
  it('has those of a black image, and may have no others', async () => {
    const bytes = modelBytes({
      inputs: ['x'],
      outputs: ['y'],
      nodes: [
        { op: 'Flatten', inputs: ['x'], outputs: ['f'] },
        { op: 'Transpose', inputs: ['f'], outputs: ['t'] },
        { op: 'MatMul', inputs: ['f', 't'], outputs: ['y'] },
      ],
    });
    const { onnx } = (await import('onnx-proto')).default;
    const proto = onnx.ModelProto.decode(bytes);
    const sizes = [3, 224, 224].map((dimValue) => ({ dimValue }));
    proto.graph!.input![0]!.type!.tensorType!.shape!.dim = [{ dimParam: 'n' }, ...sizes];
    proto.graph!.output![0]!.type!.tensorType!.shape = null;
    const gram = join(scratch, 'gram.onnx');
    writeFileSync(gram, onnx.ModelProto.encode(proto).finish());
    const run = (batch: string): Promise<Ended> =>
      runTapir([
        'embed',
        photos,
        '--model',
        gram,
        '--return',
        'y',
        '--out',
        '-',
        '--format',
        'jsonl',
        '--batch',
        batch,
      ]);
    const single = await run('1');
    expect(single).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM.replace('model', 'gram') });
    expect(rowsOf(single.stdout).every(({ y }) => (y as number[]).length === 1)).toBe(true);
    const pairs = await run('2');
    expect(pairs.stdout).toBe('');
    expect(pairs.stderr).toContain('output "y" has rows of [2] float32 instead of [1] float32');
  });
});

describe('tapir embed -, with a dataset', () => {
  it('takes JSON lines and Arrow streams too', async () => {
    const out = join(scratch, 'set');
    const image = readFileSync(sea).toString('base64');
    const input = `{"path":"${city}","id":1}\n{"image":"${image}"}\n`;
    const ended = await runTapir(['embed', '-', ...command, '--out', out], { input });
    expect(ended).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM });
    const dataset = await openDataset(out);
    expect(dataset.manifest.counts).toEqual({ inputs: 2, ok: 2, errors: 0 });
  });
});

describe('tapir embed --out -, as part of a pipe', () => {
  const start = (flags: string): ReturnType<typeof spawn> => spawn(process.execPath, pipeArgs(flags));
  const ended = (child: ReturnType<typeof spawn>): Promise<readonly [number | null, string]> => {
    let stderr = '';
    child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    // Its input may be gone before all of it was written.
    child.stdin!.on('error', () => undefined);
    return new Promise((resolve) => child.on('exit', (code) => resolve([code, stderr])));
  };

  it.each(['--batch 1', '--batch 64 --set maxWaitMs=5'])(
    'gives a row as soon as there is one: %s',
    async (flags) => {
      const child = start(`--format jsonl ${flags}`);
      const end = ended(child);
      const lines = child.stdout![Symbol.asyncIterator]();
      for (const path of [sea, missing, city]) {
        // The next one is written only when the row is there.
        child.stdin!.write(`${path}\n`);
        let text = '';
        while (!text.endsWith('\n')) text += String((await lines.next()).value);
        expect(rowsOf(text).map((row) => row['path'])).toEqual([path]);
      }
      child.stdin!.end();
      expect((await end)[0]).toBe(1);
    },
  );

  it.each(['jsonl', 'arrow'])('ends quietly when its reader goes away: %s', async (format) => {
    const child = start(`--format ${format} --return layer4=map`);
    const end = ended(child);
    child.stdout!.once('data', () => child.stdout!.destroy());
    // Without an end: it must not be waited for.
    child.stdin!.write(`${sea}\n`.repeat(300));
    expect(await end).toEqual([0, AUTO_TRANSFORM]);
  });

  it('says so when its output cannot be written', () => {
    const args = [bin, 'embed', '-', ...command, '--out', '-', '--format', 'jsonl'];
    const shell = `"$0" "$@" > /dev/full`;
    const { status, stderr } = spawnSync('sh', ['-c', shell, process.execPath, ...args], { input: sea });
    expect(status).toBe(4);
    expect(stderr.toString()).toMatch(/cannot write to standard output: ENOSPC.* \[OUTPUT_UNWRITABLE\]\n$/);
  });

  it('says so as well after a command that prints text', () => {
    const shell = `"$0" "$@" > /dev/full`;
    const { status, stderr } = spawnSync('sh', ['-c', shell, process.execPath, bin, 'nodes', model]);
    expect(status).toBe(4);
    expect(stderr.toString()).toMatch(/cannot write to standard output: ENOSPC.* \[OUTPUT_UNWRITABLE\]\n$/);
  });

  it.each([
    ['while it waits for input', '', false],
    ['while its reader stalls', `${'sea'}\n`, true],
  ])('ends when it is interrupted %s', async (_when, line, isStalled) => {
    const child = start('--format jsonl --return layer4=map --batch 1');
    const end = ended(child);
    child.stdin!.write(`${sea}\n`.repeat(line === '' ? 1 : 100));
    await new Promise<void>((resolve) => child.stdout!.once('readable', resolve));
    if (isStalled) child.stdout!.pause();
    else child.stdout!.resume();
    child.kill('SIGINT');
    expect(await end).toEqual([130, `${AUTO_TRANSFORM}tapir: stopped\n`]);
  });
});
