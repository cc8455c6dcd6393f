/** The inner end of a lane, with a simulated engine and port. */
import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../../src/base/errors.js';
import type { Engine, Session } from '../../../../src/run/runtime/lanes/engine.js';
import { serveLane, type LanePort } from '../../../../src/run/runtime/lanes/lane-server.js';
import type { LaneReply, LaneRequest, SessionFacts } from '../../../../src/run/runtime/lanes/protocol.js';
import type { SharedImages } from '../../../../src/onnx/tensor/image-feed.js';
import type { NamedTensor } from '../../../../src/onnx/tensor/tensor.js';
import { cpu, describeLane } from '../../../support/fake-lane.js';
import { untilQuiet } from '../../../support/quiet.js';

const facts: SessionFacts = { inputs: [], outputs: [], device: cpu, runtime: '1' };
const feed = (): NamedTensor => ({ name: 'x', dtype: 'float32', dims: [2], data: Float32Array.of(1, 2) });
const run = (
  id: number,
  feeds: readonly (NamedTensor | SharedImages)[] = [feed()],
  room: readonly ArrayBuffer[] = [],
): LaneRequest => ({
  type: 'run',
  id,
  feeds,
  fetches: ['x'],
  room,
});
const open = async (): Promise<LaneRequest> => ({ type: 'open', description: await describeLane() });

interface Served {
  readonly handle: (request: LaneRequest) => void;
  readonly replies: LaneReply[];
  readonly moved: ArrayBuffer[][];
  readonly steps: string[];
}

/** Serves a lane whose session returns its feeds. */
function serve({
  session = {},
  engine = {},
}: { session?: Partial<Session>; engine?: Partial<Engine> } = {}): Served {
  const replies: LaneReply[] = [];
  const moved: ArrayBuffer[][] = [];
  const steps: string[] = [];
  const port: LanePort = {
    send(reply, transfer) {
      replies.push(reply);
      moved.push(transfer);
    },
    async enter(step) {
      steps.push('enter');
      const result = await step();
      steps.push('leave');
      return result;
    },
    closed: () => void steps.push('closed'),
  };
  const simulated: Engine = {
    loadRuntime: async () => void steps.push('load'),
    openSession: async () => ({
      facts,
      run: async (feeds) => feeds.map((one) => ({ ...one })),
      release: async () => void steps.push('release'),
      ...session,
    }),
    ...engine,
  };
  return { handle: serveLane(port, async () => simulated), replies, moved, steps };
}

describe('a lane server', () => {
  it('offers each buffer to one output of its size', async () => {
    const taken: (number | undefined)[] = [];
    const { handle, replies } = serve({
      session: {
        async run(_feeds, _fetches, _signal, room) {
          for (const bytes of [8, 8, 8, 5]) taken.push(room!(bytes)?.byteLength);
          return [];
        },
      },
    });
    handle(await open());
    handle(
      run(
        1,
        [],
        [8, 16, 8].map((bytes) => new ArrayBuffer(bytes)),
      ),
    );
    await untilQuiet();
    expect(replies.at(-1)).toMatchObject({ type: 'done', id: 1 });
    expect(taken).toEqual([8, 8, undefined, undefined]);
  });

  it('loads the engine at once, then opens, runs and closes in order', async () => {
    const { handle, replies, steps } = serve();
    await untilQuiet();
    expect(steps).toEqual(['enter', 'load', 'leave']);
    handle(await open());
    handle(run(7));
    handle({ type: 'close' });
    await untilQuiet();
    expect(replies).toMatchObject([
      { type: 'opened', facts },
      { type: 'done', id: 7, outputs: [{ name: 'x', dims: [2] }] },
    ]);
    expect(steps.slice(3)).toEqual([
      'enter',
      'leave',
      'enter',
      'leave',
      'enter',
      'release',
      'leave',
      'closed',
    ]);
  });

  it('runs as many requests at once as the session has streams, and closes after them', async () => {
    const ends: (() => void)[] = [];
    const { handle, replies, steps } = serve({
      session: {
        facts: { ...facts, streams: 2 },
        run: (feeds) =>
          new Promise((resolve) => {
            ends.push(() => resolve([...feeds]));
          }),
      },
    });
    handle(await open());
    for (const id of [1, 2, 3]) handle(run(id));
    handle({ type: 'close' });
    await untilQuiet();
    expect(ends).toHaveLength(2);
    ends[1]!();
    await untilQuiet();
    expect(ends).toHaveLength(3);
    expect(steps).not.toContain('release');
    ends[0]!();
    ends[2]!();
    await untilQuiet();
    expect(replies.flatMap((reply) => (reply.type === 'done' ? [reply.id] : []))).toEqual([2, 1, 3]);
    expect(steps.slice(-3)).toEqual(['release', 'leave', 'closed']);
  });

  it('passes a cancel on to the run at work, and skips one that waits', async () => {
    const begun: number[] = [];
    const { handle, replies } = serve({
      session: {
        run: (feeds, _fetches, signal) => {
          begun.push(feeds.length);
          return new Promise((_resolve, reject) => {
            signal!.addEventListener('abort', () => reject(new Error('ended early')));
          });
        },
      },
    });
    handle(await open());
    handle(run(1));
    handle(run(2));
    await untilQuiet();
    handle({ type: 'cancel', id: 2 });
    handle({ type: 'cancel', id: 1 });
    handle({ type: 'cancel', id: 9 });
    await untilQuiet();
    expect(begun).toHaveLength(1);
    expect(replies.slice(1)).toMatchObject([
      { type: 'failed', id: 1, error: { message: 'ended early' } },
      { type: 'failed', id: 2 },
    ]);
  });

  it('does further work of a session beside its runs, and waits for it before closing', async () => {
    let finish!: () => void;
    const { handle, replies, steps } = serve({
      session: {
        finish: () =>
          new Promise((resolve) => {
            finish = resolve;
          }),
      },
    });
    handle(await open());
    handle(run(1));
    handle({ type: 'close' });
    await untilQuiet();
    expect(replies).toMatchObject([{ type: 'opened' }, { type: 'done', id: 1 }]);
    expect(steps).not.toContain('release');
    finish();
    await untilQuiet();
    expect(steps.at(-1)).toBe('closed');
  });

  it('handles one request after the other', async () => {
    let running = 0;
    const { handle, replies } = serve({
      session: {
        run: async (feeds) => {
          expect(++running).toBe(1);
          await untilQuiet();
          running--;
          return [...feeds];
        },
      },
    });
    handle(await open());
    for (const id of [1, 2, 3]) handle(run(id));
    while (replies.length < 4) await untilQuiet();
    expect(replies.slice(1)).toMatchObject([1, 2, 3].map((id) => ({ type: 'done', id })));
  });

  it('frees the bytes of the model once the session is open', async () => {
    const { handle } = serve();
    const description = await describeLane();
    handle({ type: 'open', description });
    await untilQuiet();
    expect(description.model.byteLength).toBe(0);
  });

  it('moves outputs and the buffers of feeds to the owner', async () => {
    const output = new Float32Array(3);
    const { handle, moved, replies } = serve({
      session: { run: async () => [{ name: 'y', dtype: 'float32', dims: [3], data: output }] },
    });
    const given = feed();
    handle(await open());
    handle(run(0, [given]));
    await untilQuiet();
    const { buffer } = given.data as Float32Array<ArrayBuffer>;
    expect(moved[1]).toEqual([output.buffer, buffer]);
    expect(replies[1]).toMatchObject({ spent: [buffer] });
  });

  it('makes feeds from shared images, in the same buffer each time', async () => {
    const fed: NamedTensor[] = [];
    const { handle, replies } = serve({
      session: {
        run: async ([one]) => {
          fed.push({ ...one!, data: (one!.data as Uint8Array).slice() } as NamedTensor, one!);
          return [];
        },
      },
    });
    const pixels = Uint8Array.from({ length: 6 }, (_, i) => i);
    const images = (image: number): SharedImages => ({
      name: 'x',
      dtype: 'uint8',
      dims: [1, 1, 1, 3],
      channels: 3,
      isLast: true,
      holds: 'bytes',
      images: [pixels.subarray(image * 3, (image + 1) * 3)],
      values: null,
    });
    handle(await open());
    handle(run(0, [images(1)]));
    handle(run(1, [images(0)]));
    await untilQuiet();
    expect([...(fed[0]!.data as Uint8Array)]).toEqual([3, 4, 5]);
    expect([...(fed[2]!.data as Uint8Array)]).toEqual([0, 1, 2]);
    expect((fed[3]!.data as Uint8Array).buffer).toBe((fed[1]!.data as Uint8Array).buffer);
    // The lane keeps this buffer.
    expect(replies[2]).toMatchObject({ spent: [] });
  });

  it('reports why a session cannot be opened, without an id', async () => {
    const failure = new TapirError('SESSION_FAILED', 'no', { details: { device: 'cpu', reason: 'no' } });
    const { handle, replies, steps } = serve({ engine: { openSession: () => Promise.reject(failure) } });
    handle(await open());
    handle({ type: 'close' });
    await untilQuiet();
    expect(replies).toEqual([
      { type: 'failed', error: expect.objectContaining({ code: 'SESSION_FAILED' }) as unknown },
    ]);
    // There is no session to release.
    expect(steps).not.toContain('release');
    expect(steps.at(-1)).toBe('closed');
  });

  it('reports why a run failed, with its id, and handles the next one', async () => {
    let calls = 0;
    const { handle, replies } = serve({
      session: {
        run: (feeds) => (++calls === 1 ? Promise.reject(new Error('bad')) : Promise.resolve([...feeds])),
      },
    });
    handle(await open());
    handle(run(1));
    handle(run(2));
    await untilQuiet();
    expect(replies.slice(1)).toMatchObject([
      { type: 'failed', id: 1, error: { message: 'bad' } },
      { type: 'done', id: 2 },
    ]);
  });

  it('reports a native library that cannot be loaded when the session opens, not before', async () => {
    const load = (): Promise<never> => Promise.reject(new Error('no library'));
    const { handle, replies } = serve({ engine: { loadRuntime: load, openSession: load } });
    await untilQuiet();
    expect(replies).toEqual([]);
    handle(await open());
    await untilQuiet();
    expect(replies).toMatchObject([{ type: 'failed', error: { message: 'no library' } }]);
  });
});
