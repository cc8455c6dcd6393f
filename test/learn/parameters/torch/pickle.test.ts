import { describe, expect, it } from 'vitest';
import { PickleCutError, readPickle } from '../../../../src/learn/parameters/torch/pickle.js';

const world = {
  findGlobal: (name: string) => (args: readonly unknown[]) => [name, ...args],
  findPersistent: (id: unknown) => ({ id }),
};
const read = (...parts: (string | number)[]): unknown =>
  readPickle(
    Buffer.concat(
      parts.map((part) => (typeof part === 'number' ? Buffer.of(part) : Buffer.from(part, 'latin1'))),
    ),
    world,
  ).value;

describe('readPickle', () => {
  // Each is what Python's pickle.dumps(value, 2) writes.
  it.each<[string, unknown, string]>([
    ['None', null, '\x80\x02N.'],
    ['a tuple', [1, -2, 300], '\x80\x02K\x01J\xfe\xff\xff\xffM,\x01\x87q\x00.'],
    ['a list', ['a', true, false], '\x80\x02]q\x00(X\x01\x00\x00\x00aq\x01\x88\x89e.'],
    ['a float', 0.1, '\x80\x02G?\xb9\x99\x99\x99\x99\x99\x9a.'],
    ['an integer of 40 bits', 2 ** 40, '\x80\x02\x8a\x06\x00\x00\x00\x00\x00\x01.'],
    ['an integer of 70 bits', -(2n ** 70n), '\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xc0.'],
    ['a dict', new Map([['k', []]]), '\x80\x02}q\x00X\x01\x00\x00\x00kq\x01)s.'],
    ['equal items', [[7], [7]], '\x80\x02]q\x00(]q\x01K\x07ah\x01e.'],
  ])('reads %s', (_what, value, text) => {
    expect(read(text)).toEqual(value);
  });

  it('says where a pickle ends, so that the next one can be read', () => {
    const two = Buffer.from('\x80\x02K\x01.\x80\x02K\x02.', 'latin1');
    const first = readPickle(two, world);
    expect(first).toEqual({ value: 1, end: 5 });
    expect(readPickle(two, world, first.end)).toEqual({ value: 2, end: 10 });
    expect(() => readPickle(two, world, 10)).toThrow(PickleCutError);
  });

  it.each<[string, string, number]>([
    ['dicts', '}', 2 ** 17],
    ['ordered dicts', 'h\x00)R', 2 ** 18],
    ['bytes', 'C\x00', 2 ** 17],
    ['long integers', '\x8a\x01\x01', 2 ** 17],
    ['globals', 'ca\nb\n', 2 ** 17],
    ['lists', ']', 2 ** 20],
  ])('refuses more %s than a state dict has: they would fill the memory', (_what, opcodes, count) => {
    const start = 'ca\nb\nq\x00';
    expect(() => read(start, opcodes.repeat(count), '.')).toThrow(/more than 1048576 steps/);
    expect(read(start, opcodes.repeat(count / 16), '.')).toBeDefined();
  });

  it('calls only what it is given', () => {
    expect(read('cposix\nsystem\nX\x04\x00\x00\x00trueq\x00\x85R.')).toEqual(['posix.system', 'true']);
    expect(read('\x8c\x05torch\x8c\x04Size\x93K\x02\x85\x85R.')).toEqual(['torch.Size', [2]]);
    expect(read('K\x05Q.')).toEqual({ id: 5 });
  });

  it.each<[string, string, RegExp]>([
    ['an opcode of objects', 'ca\nb\n)\x81.', /opcode 0x81 at byte 6/],
    ['an old opcode', 'I1\n.', /opcode 0x49/],
    ['its end missing', '\x80\x02K\x01', /ends early/],
    ['a text that is too long', 'X\xff\xff\xff\xffa.', /ends early/],
    ['a line without end', 'cposix', /ends early/],
    ['a huge integer', '\x8b\xff\xff\xff\x7f.', /integer of 2147483647 bytes/],
    ['an empty stack', '.', /not there/],
    ['a value before a mark', 'K\x01(.', /not there/],
    ['no mark', 't.', /not begun/],
    ['nothing stored', 'h\x05.', /value 5/],
    ['a call of a number', 'K\x01)R.', /not a function/],
    ['items of a number', 'K\x01K\x02K\x03s.', /not a dict/],
    ['a key alone', '}(K\x01u.', /key without a value/],
    ['appending to a dict', '}K\x01a.', /not a list/],
    ['attributes of a list', ']}b.', /not a dict/],
    ['a global without a name', 'K\x01K\x02\x93.', /not text/],
  ])('refuses %s', (_what, text, reason) => {
    expect(() => read(text)).toThrow(reason);
  });
});
