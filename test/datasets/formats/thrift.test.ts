import { describe, expect, it } from 'vitest';
import {
  binary,
  bool,
  byte,
  i16,
  i32,
  i64,
  list,
  struct,
  varint,
} from '../../../src/datasets/formats/thrift.js';

// The expected bytes follow from thrift-compact-protocol.md of Apache Thrift.
describe('the compact protocol', () => {
  it('encodes integers with seven bits per byte, doubled by zigzag', () => {
    expect(varint(0)).toEqual([0]);
    expect(varint(300)).toEqual([0xac, 0x02]);
    expect(i16(1)).toEqual({ type: 4, bytes: [2] });
    expect(i32(150)).toEqual({ type: 5, bytes: [0xac, 0x02] });
    // Above 32 bits, where JavaScript's bit operations end.
    expect(i64(2 ** 40)).toEqual({ type: 6, bytes: [0x80, 0x80, 0x80, 0x80, 0x80, 0x40] });
    expect(byte(64)).toEqual({ type: 3, bytes: [64] });
  });

  it('encodes texts with their length in bytes', () => {
    expect(binary('é')).toEqual({ type: 8, bytes: [2, 0xc3, 0xa9] });
    expect(binary(Uint8Array.of(7))).toEqual({ type: 8, bytes: [1, 7] });
  });

  it('encodes lists, long ones with a separate length', () => {
    expect(list([i32(1), i32(2)])).toEqual({ type: 9, bytes: [0x25, 2, 4] });
    expect(list([]).bytes).toEqual([0x0c]);
    const long = list(Array.from({ length: 15 }, () => byte(0)));
    expect(long.bytes.slice(0, 2)).toEqual([0xf3, 15]);
    expect(long.bytes).toHaveLength(17);
  });

  it('encodes fields by the distance of their ids, and leaves out undefined ones', () => {
    const value = struct({ 1: i32(3), 2: undefined, 5: bool(true), 6: bool(false), 9: struct({}) });
    expect(value).toEqual({ type: 12, bytes: [0x15, 6, 0x41, 0x12, 0x3c, 0, 0] });
  });
});
