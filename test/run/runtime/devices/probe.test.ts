/** Devices that are tried: the one that works everywhere, and processes that do not end in time. */
import { describe, expect, it } from 'vitest';
import { readDevice } from '../../../../src/run/runtime/lanes/device.js';
import { probeDevice } from '../../../../src/run/runtime/devices/probe.js';

const cpu = readDevice('device', 'cpu');

describe('probeDevice', () => {
  it('runs two models on the CPU', async () => {
    const result = await probeDevice(cpu, { timeoutMs: 60_000, cudaLibraries: undefined, signal: undefined });
    expect(result).toMatchObject({ isWorking: true, reason: null, weakness: null, missingLibraries: [] });
    expect(result.runtime).toMatch(/^\d+\.\d+/);
    expect(result.providers).toContain('cpu');
  });

  it('says that the time was too short', async () => {
    const result = await probeDevice(cpu, { timeoutMs: 0, cudaLibraries: undefined, signal: undefined });
    expect(result).toMatchObject({ isWorking: false, reason: 'no answer within 0 s', runtime: null });
  });

  it('says that it was stopped', async () => {
    const abort = new AbortController();
    const probing = probeDevice(cpu, { timeoutMs: 60_000, cudaLibraries: undefined, signal: abort.signal });
    abort.abort();
    expect(await probing).toMatchObject({ isWorking: false, reason: 'the probe was stopped' });
  });
});
