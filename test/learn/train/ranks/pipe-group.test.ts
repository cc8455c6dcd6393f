/** The pipe to the parent process, with a peer that answers well, wrongly, or no more. */
import { createServer, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { endianness } from 'node:os';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PipeGroup } from '../../../../src/learn/train/ranks/pipe-group.js';
import { scratchFolder } from '../../../support/fixtures.js';

const HELLO = 1;
const SUM64 = 3;
const BROADCAST = 4;
const BARRIER = 5;
const CLOSE = 6;
const LOST = 7;
const MAGIC = 0x7a70_6174;

function frame(
  kind: number,
  data: Uint8Array = new Uint8Array(0),
  bytes = data.length,
  mark = MAGIC,
): Buffer {
  const header = new DataView(new ArrayBuffer(16));
  const isLittle = endianness() === 'LE';
  header.setUint32(0, mark, isLittle);
  header.setUint32(4, kind, isLittle);
  header.setBigUint64(8, BigInt(bytes), isLittle);
  return Buffer.concat([new Uint8Array(header.buffer), data]);
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const HELLO_ANSWER = frame(HELLO, json({ rank: 1, size: 2 }));

type Answer = (kind: number, data: Buffer, peer: Socket) => void;

/** A group whose peer greets, and then answers each frame as it is told. */
async function joinPeer(answer: Answer, greeting: Answer = (_, __, peer) => void peer.write(HELLO_ANSWER)) {
  const path = join(scratchFolder(), `pipe-${Math.random()}`);
  const server = createServer((peer) => {
    let read = Buffer.alloc(0);
    peer
      .on('error', () => undefined)
      .on('data', (chunk) => {
        read = Buffer.concat([read, chunk]);
        while (read.length >= 16 && read.length >= 16 + Number(read.readBigUInt64LE(8))) {
          const [kind, bytes] = [read.readUInt32LE(4), Number(read.readBigUInt64LE(8))];
          const data = read.subarray(16, 16 + bytes);
          read = read.subarray(16 + bytes);
          if (kind === CLOSE) peer.end();
          else (kind === HELLO ? greeting : answer)(kind, data, peer);
        }
      });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
  const joining = PipeGroup.join((onread) => connect({ path, onread }), '0.1.0', 60_000);
  joining.then(
    (group) => onTestFinished(() => group.close()),
    () => undefined,
  );
  return joining;
}

const lost = (reason: RegExp) => ({
  code: 'RANK_LOST',
  details: { reason: expect.stringMatching(reason) },
});

describe('a group over a pipe', () => {
  it('sends arrays, and takes the answer into their place, in whatever pieces it comes', async () => {
    const group = await joinPeer((kind, data, peer) => {
      expect(kind).toBe(SUM64);
      const values = new Float64Array(Uint8Array.from(data).buffer).map((value) => 2 * value);
      const whole = frame(SUM64, new Uint8Array(values.buffer));
      for (const at of [0, 7, 21, whole.length - 3].keys()) {
        const cuts = [0, 7, 21, whole.length - 3, whole.length];
        peer.write(whole.subarray(cuts[at], cuts[at + 1]));
      }
    });
    expect([group.rank, group.size]).toEqual([1, 2]);
    const arrays = [Float64Array.of(1, 2), new Float64Array(0), Float64Array.of(3)];
    await group.sum(arrays);
    expect(arrays.map((array) => Array.from(array))).toEqual([[2, 4], [], [6]]);
  });

  it('takes bytes and barriers, one call after the other', async () => {
    const group = await joinPeer((kind, _, peer) => {
      peer.write(kind === BARRIER ? frame(BARRIER) : frame(BROADCAST, Buffer.from('of rank 0')));
    });
    const [bytes] = await Promise.all([group.broadcast(new Uint8Array(9)), group.barrier()]);
    expect(Buffer.from(bytes).toString()).toBe('of rank 0');
  });

  it('hears which rank is lost, in a call and between calls', async () => {
    const group = await joinPeer((_, __, peer) => {
      peer.write(frame(LOST, json({ rank: 0, reason: 'its process has ended' })));
    });
    const error = { ...lost(/ended/), details: { rank: 0, reason: 'its process has ended' } };
    await expect(group.barrier()).rejects.toMatchObject(error);
    await expect(group.barrier()).rejects.toMatchObject(error);
  });

  it('stops waiting when its signal fires, and says so to the peer', async () => {
    const abort = new AbortController();
    const group = await joinPeer(() => abort.abort(new Error('enough')));
    await expect(group.sum([new Float64Array(1)], abort.signal)).rejects.toThrow('enough');
    await group.close('it was stopped');
    await expect(group.barrier()).rejects.toThrow('enough');
  });
});

describe('a hostile peer', () => {
  const ask = async (answer: Answer): Promise<void> => {
    const group = await joinPeer(answer);
    await group.sum([Float64Array.of(1, 2)]);
  };
  const sum = (bytes: number, claimed = bytes): Buffer => frame(SUM64, new Uint8Array(bytes), claimed);

  it.each([
    ['is cut before an answer', (peer: Socket) => peer.end(), /has ended/],
    ['is cut inside an answer', (peer: Socket) => peer.end(sum(16).subarray(0, 20)), /has ended/],
    ['is reset', (peer: Socket) => peer.destroy(), /has ended/],
    ['sends too little', (peer: Socket) => peer.write(sum(8)), /sent 8 bytes, 16 were due/],
    ['sends too much', (peer: Socket) => peer.write(sum(24)), /sent 24 bytes, 16 were due/],
    ['claims what no memory holds', (peer: Socket) => peer.write(sum(0, 2 ** 60)), /bytes, 16 were due/],
    ['sends text', (peer: Socket) => peer.write('Traceback (most recent call last):\n'), /something else/],
    ['answers another call', (peer: Socket) => peer.write(frame(BARRIER)), /something else/],
    [
      'has another mark',
      (peer: Socket) => peer.write(frame(SUM64, new Uint8Array(16), 16, 1)),
      /something else/,
    ],
    ['accuses without a text', (peer: Socket) => peer.write(frame(LOST, Buffer.from('{'))), /JSON/],
    ['accuses at length', (peer: Socket) => peer.write(frame(LOST, json(''), 2 ** 40)), /at most 65536/],
  ])('that %s', async (_, answer, reason) => {
    await expect(ask((__, ___, peer) => void answer(peer))).rejects.toMatchObject(lost(reason));
  });

  it('that speaks before it is asked', async () => {
    const group = await joinPeer(
      () => undefined,
      (_, __, peer) => {
        peer.write(Buffer.concat([HELLO_ANSWER, frame(BARRIER)]));
      },
    );
    await expect(group.barrier()).rejects.toMatchObject(lost(/something else/));
  });

  it.each(['{"rank":"first"}', '[]', 'null', 'none'])('that greets with %s', async (greeting) => {
    const greet: Answer = (_, __, peer) => void peer.write(frame(HELLO, Buffer.from(greeting)));
    await expect(joinPeer(() => undefined, greet)).rejects.toMatchObject(lost(/no rank/));
  });
});
