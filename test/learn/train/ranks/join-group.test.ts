/** The group of a process by its environment; that over a pipe is in pipe-group.test.ts. */
import { afterEach, expect, it, vi } from 'vitest';
import { joinGroup } from '../../../../src/learn/train/ranks/join-group.js';

afterEach(() => void vi.unstubAllEnvs());

it('is one rank where no launcher has started several', async () => {
  for (const size of ['', '1']) {
    vi.stubEnv('WORLD_SIZE', size);
    const group = await joinGroup();
    expect([group.rank, group.size]).toEqual([0, 1]);
    const arrays = [Float64Array.of(1)];
    await group.sum(arrays);
    await group.barrier();
    expect(arrays).toEqual([Float64Array.of(1)]);
    expect(await group.broadcast(Uint8Array.of(2))).toEqual(Uint8Array.of(2));
    await group.close();
  }
});

it('is refused where a launcher has started several without the Python package', async () => {
  vi.stubEnv('RANK', '1');
  vi.stubEnv('WORLD_SIZE', '4');
  await expect(joinGroup()).rejects.toMatchObject({
    code: 'LAUNCHER_INVALID',
    message: expect.stringMatching(/^4 processes.*torchrun -m onnx_tapir\.train/),
    details: { variables: { RANK: '1', WORLD_SIZE: '4' } },
  });
  await expect(joinGroup({ timeoutMs: 0 })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
});
