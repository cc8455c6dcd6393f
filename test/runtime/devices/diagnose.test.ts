/** The diagnosis as a function of the library, with the built package: the facts of this machine, and refused options. */
import { join } from 'node:path';
import { diagnose } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/fixtures.js';

describe('diagnose', () => {
  it('tries each device and gathers the facts', async () => {
    const before = { ...process.env };
    const { node, runtime, cpu, devices, isTelemetryOff } = await diagnose();
    expect(node).toMatchObject({ version: process.version, abi: process.versions.modules });
    expect(runtime.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(runtime.providers).toContain('cpu');
    expect(cpu.isUsable).toBe(true);
    expect(isTelemetryOff).toBe(true);
    expect(devices[0]).toMatchObject({ device: 'cpu', isWorking: true, reason: null, weakness: null });
    expect(devices.at(-1)!.device).toBe('webgpu');
    expect(process.env).toEqual(before);
  });

  it.each([
    [{ timeoutMs: -1 }, 'timeoutMs'],
    [{ cudaLibraries: '' }, 'cudaLibraries'],
    [{ cudaLibraries: join(scratchFolder(), 'none') }, 'cudaLibraries'],
    [{ timeout: 1 } as object, 'timeout'],
    [{ signal: 1 } as object, 'signal'],
  ])('refuses %j', async (options, option) => {
    await expect(diagnose(options)).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option } });
  });

  it('stops when its signal fires', async () => {
    const abort = new AbortController();
    const diagnosis = diagnose({ signal: abort.signal });
    abort.abort(new Error('enough'));
    await expect(diagnosis).rejects.toThrow('enough');
  });
});
