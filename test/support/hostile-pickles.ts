/** Checkpoints that ask for more work than their size suggests. Each is a few megabytes at size 1, and takes time or memory by its form. */
import { makeZip, type ZippedFile } from './archives.js';

const uint = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const code = (text: string): Buffer => Buffer.from(text, 'latin1');
/** Opcodes: integer, text, store in the memo, take from the memo. */
const int = (value: number): Buffer => Buffer.concat([code('J'), uint(value)]);
const text = (value: string): Buffer =>
  Buffer.concat([code('X'), uint(Buffer.byteLength(value)), Buffer.from(value)]);
const put = (index: number): Buffer => Buffer.concat([code('r'), uint(index)]);
const get = (index: number): Buffer => Buffer.concat([code('j'), uint(index)]);
const join = (...parts: readonly (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? code(part) : part)));
const times = (count: number, one: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: Math.ceil(count) }, (_, i) => one(i)));
const repeat = (count: number, opcodes: string): Buffer => code(opcodes.repeat(Math.ceil(count)));

/** Stores a builder as value 0. */
const builder = (name: string): Buffer => join(`c${name}\n`, put(0));
const ordered = builder('collections\nOrderedDict');
const storageId = (key: string): Buffer =>
  join('(', text('storage'), 'ctorch\nFloatStorage\n', text(key), text('cpu'), 'K\x01tQ');
/** The arguments of a tensor of one element as value 1. */
const tensorArgs = (key: string, hooks: Buffer | string = '}'): Buffer =>
  join('(', storageId(key), 'K\0))\x89', hooks, 't', put(1));
const tensor = join(builder('torch._utils\n_rebuild_tensor_v2'), tensorArgs('0'));
/** Calls value 0 with value 1. */
const call = join(get(0), get(1), 'R');
/** A list of so many pairs in a tuple, as value 1. */
const pairs = (count: number, key: (i: number) => number): Buffer =>
  join(
    '((',
    times(count, (i) => join(int(key(i)), 'N\x86')),
    'lt',
    put(1),
  );
const dictOf = (count: number, item: (i: number) => Buffer): Buffer =>
  join(
    '}(',
    times(count, (i) => join(text(`k${i}`), item(i))),
    'u',
  );

/** Integers whose hashes in a Map of V8 end in the same bits, so that they share a bucket. */
function collidingIntegers(count: number): number[] {
  const found: number[] = [];
  const mask = 2 ** Math.ceil(Math.log2(count)) - 1;
  for (let key = 0; found.length < count; key++) if ((hashOf(key) & mask) === 5) found.push(key);
  return found;
}

/** V8's hash of small integers (ComputeUnseededHash). */
function hashOf(key: number): number {
  let hash = (~key + (key << 15)) >>> 0;
  hash = (hash ^ (hash >>> 12)) >>> 0;
  hash = (hash + (hash << 2)) >>> 0;
  hash = (hash ^ (hash >>> 4)) >>> 0;
  hash = Math.imul(hash, 2057) >>> 0;
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Pickles by name, without their start and stop. */
function hostilePickles(size: number): Readonly<Record<string, () => Buffer>> {
  const n = (count: number): number => Math.ceil(count * size);
  const colliding = (count: number): number[] => collidingIntegers(n(count));
  const long = 'x'.repeat(n(2_000_000));
  return {
    'ordered dicts of a list of pairs': () =>
      join(
        ordered,
        pairs(n(100_000), (i) => i),
        '(',
        times(n(90_000), () => call),
        'l',
      ),
    'ordered dicts of one pair, again and again': () =>
      join(
        ordered,
        pairs(n(300_000), () => 7),
        '(',
        times(n(90_000), () => call),
        'l',
      ),
    'ordered dicts that are dropped': () =>
      join(
        ordered,
        pairs(n(100_000), (i) => i),
        '}',
        times(n(90_000), () => join(call, 'b')),
      ),
    'a map of marks for each tensor': () =>
      join(
        builder('torch._utils\n_rebuild_tensor_v2'),
        '(',
        storageId('0'),
        'K\0))\x89}}(',
        times(n(150_000), (i) => join(text(String(i)), 'N')),
        'ut',
        put(1),
        '(',
        times(n(80_000), () => call),
        'l',
      ),
    'a map of marks for each tensor of a newer type': () =>
      join(
        builder('torch._utils\n_rebuild_tensor_v3'),
        '(',
        storageId('0'),
        'K\0))\x89}ctorch\nfloat32\n}(',
        times(n(150_000), (i) => join(text(String(i)), 'N')),
        'ut',
        put(1),
        '(',
        times(n(80_000), () => call),
        'l',
      ),
    'a checkpoint whose keys all name one map': () =>
      join(
        dictOf(n(150_000), () => code('N')),
        put(9),
        dictOf(n(200_000), () => get(9)),
      ),
    'a checkpoint whose keys name two maps by turns': () =>
      join(
        dictOf(n(100_000), () => code('N')),
        put(9),
        dictOf(n(50_000), () => code('K\x01')),
        put(8),
        dictOf(n(150_000), (i) => get(8 + (i % 2))),
      ),
    'keys that all name one tensor': () =>
      join(
        tensor,
        call,
        put(9),
        dictOf(n(250_000), () => get(9)),
      ),
    'as many tensors as fit': () =>
      join(
        tensor,
        dictOf(n(200_000), () => call),
      ),
    'tensors of 64 dims': () =>
      join(
        builder('torch._utils\n_rebuild_tensor_v2'),
        '(',
        storageId('0'),
        'K\0(',
        repeat(64, 'K\x01'),
        't\x89'.slice(0, 1),
        '(',
        repeat(64, 'K\x01'),
        't\x89}t',
        put(1),
        dictOf(n(120_000), () => call),
      ),
    'tensors with half a million dims': () =>
      join(
        builder('torch._utils\n_rebuild_tensor_v2'),
        '(',
        storageId('0'),
        'K\0(',
        repeat(n(500_000), 'K\x01'),
        't(',
        repeat(n(400_000), 'K\x01'),
        't\x89}t',
        put(1),
        dictOf(n(1000), () => call),
      ),
    'several state dicts': () =>
      join(
        tensor,
        dictOf(n(60_000), () => join('}', text('w'), call, 's')),
      ),
    'several names of one state dict': () =>
      join(
        tensor,
        '}',
        text('w'),
        call,
        's',
        put(9),
        dictOf(n(250_000), () => get(9)),
      ),
    'integer keys that collide': () =>
      join(
        '}(',
        times(
          n(60_000),
          (
            (keys) => (i: number) =>
              join(int(keys[i]!), 'N')
          )(colliding(60_000)),
        ),
        'u',
      ),
    'pairs whose keys collide': () => {
      const keys = colliding(60_000);
      return join(
        ordered,
        pairs(keys.length, (i) => keys[i]!),
        call,
      );
    },
    'places of the memo that collide': () =>
      join(
        'N',
        times(
          n(60_000),
          (
            (keys) => (i: number) =>
              put(keys[i]!)
          )(colliding(60_000)),
        ),
      ),
    'places of the memo far apart': () =>
      join(
        'N',
        times(n(400_000), (i) => put((i * 2_654_435_761) % 2 ** 32)),
      ),
    'lists within lists': () => join(repeat(n(2_000_000), '('), repeat(n(2_000_000), 'l')),
    'tuples within tuples': () => join('N', repeat(n(900_000), '\x85')),
    'dicts within dicts': () =>
      join(
        times(n(120_000), () => join('}', text('a'))),
        'N',
        repeat(n(120_000), 's'),
      ),
    marks: () => repeat(n(4_000_000), '('),
    'empty lists': () => join('(', repeat(n(4_000_000), ']'), 'l'),
    'empty dicts': () => join('(', repeat(n(4_000_000), '}'), 'l'),
    'empty ordered dicts': () =>
      join(
        ordered,
        '(',
        times(n(500_000), () => join(get(0), ')R')),
        'l',
      ),
    'empty bytes': () => join('(', repeat(n(2_000_000), 'C\0'), 'l'),
    'empty texts': () => join('(', repeat(n(2_000_000), '\x8c\0'), 'l'),
    'texts of ten signs': () =>
      join(
        '(',
        times(n(300_000), (i) => text(`k${i}`.padEnd(10, '.'))),
        'l',
      ),
    'long integers': () =>
      join(
        '(',
        times(n(70_000), () => join('\x8a\x40', Buffer.alloc(64, 0x7f))),
        'l',
      ),
    numbers: () => join('(', repeat(n(480_000), 'G?\xb9\x99\x99\x99\x99\x99\x9a'), 'l'),
    'one list, again and again': () =>
      join(
        ']',
        put(1),
        '(',
        times(n(800_000), () => get(1)),
        'l',
      ),
    'a list that grows by itself': () =>
      join(
        ']',
        put(1),
        times(n(500_000), () => join(get(1), 'a')),
      ),
    'a list that grows by long ones': () =>
      join(
        '(',
        repeat(n(100_000), 'N'),
        'l',
        put(1),
        '](',
        times(n(800_000), () => get(1)),
        'e',
      ),
    'a dict that holds itself': () => join('}', put(1), text('a'), get(1), 's'),
    'attributes that are dropped': () => join('}', repeat(n(2_000_000), 'Nb')),
    'storages of one name': () =>
      join(
        '(',
        text('storage'),
        'ctorch\nFloatStorage\n',
        text('0'),
        text('cpu'),
        'K\x01t',
        put(1),
        '(',
        times(n(600_000), () => join(get(1), 'Q')),
        'l',
      ),
    'storages of many names': () =>
      join(
        '(',
        times(n(60_000), (i) => storageId(String(i))),
        'l',
      ),
    'a storage of a long name': () =>
      join(
        builder('torch._utils\n_rebuild_tensor_v2'),
        tensorArgs('s'.repeat(60_000)),
        dictOf(n(100_000), () => call),
      ),
    'storages of a name as long as the file': () =>
      join(
        '(',
        text('storage'),
        'ctorch\nFloatStorage\n',
        text(long),
        text('cpu'),
        'K\x01t',
        put(1),
        '(',
        times(n(300_000), () => join(get(1), 'Q')),
        'l',
      ),
    'a long global': () =>
      join(
        text(long),
        put(1),
        times(n(300_000), () => join(get(1), get(1), '\x93')),
      ),
    'a global again and again': () => join('(', repeat(n(150_000), 'ccollections\nOrderedDict\n'), 'l'),
    'a global of ten thousand letters': () => join('(', repeat(n(400), `c${'a'.repeat(10_000)}\nb\n`), 'l'),
    'long keys': () => join('}', text(long), 'Ns', text(`${long}y`), 'Ns'),
    'keys that are lists': () => join('}(', repeat(n(1_500_000), ']N'), 'u'),
    'keys that are no text': () =>
      join(
        '}(',
        times(n(400_000), (i) => join(int(i), 'N')),
        'u',
      ),
    'one text as key, again and again': () =>
      join(
        text(long),
        put(1),
        '}(',
        times(n(300_000), () => join(get(1), 'N')),
        'u',
      ),
    frames: () => join(repeat(n(400_000), `\x95${'\0'.repeat(8)}`), '}'),
    'sizes of sizes': () =>
      join(
        builder('torch\nSize'),
        '(',
        repeat(n(500_000), 'N'),
        't\x85',
        put(1),
        '(',
        times(n(80_000), () => call),
        'l',
      ),
    'parameters of parameters': () =>
      join(
        builder('torch._utils\n_rebuild_parameter'),
        'N',
        times(n(400_000), () => join('\x85', put(1), call)),
      ),
  };
}

/** Files of torch.save by name: zips, zips with odd directories, and the older form. */
export function hostileCheckpoints(size: number): Readonly<Record<string, () => Buffer>> {
  const pickles = hostilePickles(size);
  const storage = (name: string): ZippedFile => ({ name: `a/data/${name}`, bytes: Buffer.alloc(4) });
  const whole = (body: Buffer): Buffer => join('\x80\x02', body, '.');
  const zipped = Object.entries(pickles).map(([name, body]): [string, () => Buffer] => [
    name,
    () => makeZip([{ name: 'a/data.pkl', bytes: whole(body()) }, storage('0'), storage('s'.repeat(60_000))]),
  ]);
  const entries = Math.ceil(60_000 * size);
  const many = (name: (i: number) => string): readonly ZippedFile[] =>
    Array.from({ length: entries }, (_, i) => ({ name: name(i), bytes: Buffer.alloc(0) }));
  const head = [`\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19`, 'M\xe9\x03', '}'].map((part) =>
    whole(code(part)),
  );
  const legacy =
    (name: string): (() => Buffer) =>
    () =>
      Buffer.concat([...head, whole(pickles[name]!()), whole(code(']'))]);
  return {
    ...Object.fromEntries(zipped),
    'many entries': () =>
      makeZip([{ name: 'a/data.pkl', bytes: whole(code('}')) }, ...many((i) => `a/${i}`)]),
    'entries of one name': () => makeZip(many(() => 'a/data.pkl')),
    'entries with many folders': () => makeZip(many((i) => `${'a/'.repeat(10)}${i}`)),
    'many pickles': () => makeZip(many((i) => `${i}/data.pkl`)),
    'the older form: ordered dicts': legacy('ordered dicts of a list of pairs'),
    'the older form: keys that all name one tensor': legacy('keys that all name one tensor'),
    'the older form: no end': () =>
      Buffer.concat([...head, join('\x80\x02(', repeat(Math.ceil(4_500_000 * size), 'N'))]),
    'the older form: work before a cut': () =>
      Buffer.concat([
        ...head,
        join(
          '\x80\x02',
          ordered,
          pairs(Math.ceil(1000 * size), (i) => i),
          '(',
          times(Math.ceil(300_000 * size), () => call),
        ),
      ]),
  };
}
