import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import {
  deviceName,
  readDevice,
  readDevices,
  shareThreads,
  specOf,
} from '../../../../src/run/runtime/lanes/device.js';
import { refusal } from '../../../support/refusal.js';

it.each([
  'cpu',
  'cpu:1',
  'cuda:0',
  'cuda:GPU-1234',
  'webgpu',
  'plugin:webgpu',
  'plugin:webgpu:1',
  'plugin:/lib/libplugin.so',
] as const)('%s can be asked for again as an object', (device) => {
  const spec = specOf(readDevice('device', device));
  const again = readDevice('device', spec);
  expect(specOf(again)).toEqual(spec);
  expect(deviceName(again)).toBe(deviceName(readDevice('device', device)));
});

describe('readDevice', () => {
  it.each([
    ['cpu', { type: 'cpu', id: 0, threads: 0 }],
    ['cuda', { type: 'cuda', id: 0, threads: 0 }],
    ['cuda:3', { type: 'cuda', id: 3, threads: 0 }],
    ['cpu:1', { type: 'cpu', id: 1, threads: 0 }],
    ['plugin:webgpu', { type: 'plugin', plugin: 'webgpu', id: 0 }],
    ['plugin:webgpu:1', { type: 'plugin', plugin: 'webgpu', id: 1 }],
    ['plugin:/opt/ep/libep.so', { type: 'plugin', plugin: '/opt/ep/libep.so', id: 0 }],
    [
      { type: 'plugin', id: 'openvino:2' },
      { type: 'plugin', plugin: 'openvino', id: 2 },
    ],
    [
      { type: 'cuda', id: 'MIG-1-2' },
      { type: 'cuda', id: 0, uuid: 'MIG-1-2', threads: 0 },
    ],
    [
      { type: 'cpu', threads: 2 },
      { type: 'cpu', id: 0, threads: 2 },
    ],
    [
      { type: 'cuda', id: 1 },
      { type: 'cuda', id: 1, threads: 0 },
    ],
  ])('reads %j', (given, device) => expect(readDevice('device', given)).toMatchObject(device));

  it.each([
    'gpu',
    'CUDA',
    'cuda:',
    'cuda:-1',
    'cuda:x',
    'webgpu:1',
    'auto:1',
    'plugin',
    'plugin:0',
    'plugin:',
    'plugin:libep.so',
    { type: 'plugin' },
    { type: 'plugin', id: 0 },
    '',
    1,
    null,
    { type: 'gpu' },
    { id: 1 },
    { type: 'cuda', id: 1.5 },
    { type: 'cuda', id: 'GPU' },
    { type: 'cpu', id: 'GPU-1' },
    { type: 'cuda', gpuMemLimit: 1 },
  ])('refuses %j, which onnxruntime-node would ignore or crash on', (given) =>
    expect(() => readDevice('device', given)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' })),
  );
});

describe('readDevices', () => {
  const names = (given: unknown): string[] => readDevices('devices', given).map(deviceName);

  it('names what was numbered by its number', () => {
    expect(names(['cpu:0', 'cpu:1', 'cuda', { type: 'cuda', id: 'GPU-1' }])).toEqual([
      'cpu:0',
      'cpu:1',
      'cuda:0',
      'cuda:GPU-1',
    ]);
    expect(names(['cpu'])).toEqual(['cpu']);
  });

  it('shares the cores among CPU sessions without threads of their own', () => {
    const threads = (given: unknown, sessions = 1, processes = 1): number[] =>
      shareThreads(readDevices('devices', given), sessions, processes).map((one) => one.threads);
    const share = (sessions: number): number => Math.max(1, Math.floor(availableParallelism() / sessions));
    expect(threads(['cpu:0', 'cpu:1'])).toEqual([share(2), share(2)]);
    expect(threads(['cpu:0', 'cpu:1', 'cuda'], 2)).toEqual([share(4), share(4), 0]);
    expect(threads(['cpu:0', { type: 'cpu', id: 1, threads: 3 }])).toEqual([share(2), 3]);
    expect(threads(['cpu'])).toEqual([0]);
    expect(threads(['cpu'], 2)).toEqual([share(2)]);
    expect(threads(['cpu', 'cuda'], 1, 2)).toEqual([share(2), 0]);
  });

  it.each([[[]], ['cpu'], [['cpu', 'cpu:0']], [['cuda:1', { type: 'cuda', id: 1 }]], [['cuda:0', 'x']]])(
    'refuses %j',
    (given) =>
      expect(() => readDevices('devices', given)).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      ),
  );
});

describe('other words for devices', () => {
  it.each([
    ['CUDA', /did you mean "cuda"\?/],
    ['CUDAExecutionProvider', /did you mean "cuda"\?/],
    ['CPUExecutionProvider', /did you mean "cpu"\?/],
    ['gpu', /: write "cuda" or "webgpu"/],
    ['TensorrtExecutionProvider', /it is not supported; write "cuda"/],
    ['wasm', /onnxruntime-node does not have it; write "cpu"/],
    ['cude', /got "cude"$/],
    [{ type: 'CUDA' }, /"device\.type".*did you mean "cuda"\?/],
    [{ name: 'cuda' }, /no field "name".*use type/],
    [{ type: 'cuda', deviceId: 1 }, /no field "deviceId".*use id/],
    [{ type: 'cuda', gpu_mem_limit: 1 }, /no field "gpu_mem_limit".*session\.cuda\.gpuMemLimit/],
    [['cuda'], /must be "cpu", "cuda"/],
    [{}, /"device\.type" must be/],
  ])('such as %j are refused, with the word to write', (given, why) => {
    const refused = refusal(() => readDevice('device', given));
    expect(refused).toMatch(/^OPTION_INVALID: /);
    expect(refused).toMatch(why);
  });
});
