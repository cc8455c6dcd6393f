/** The diagnosis as the command asks for it: the facts of this machine, and refused options. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { diagnose } from '../../../../build/modules/run/runtime/devices/diagnose.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { hasBfloat16, hasOpenVino } from '../../../support/openvino.js';

describe('diagnose', () => {
  it('tries each device and gathers the facts', async () => {
    const before = { ...process.env };
    const { node, runtime, cpu, devices, engines, instructionSets, isTelemetryOff } = await diagnose();
    expect(node).toMatchObject({ version: process.version, abi: process.versions.modules });
    expect(runtime.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(runtime.providers).toContain('cpu');
    expect(cpu.isUsable).toBe(true);
    expect(isTelemetryOff).toBe(true);
    expect(devices[0]).toMatchObject({ device: 'cpu', isWorking: true, reason: null, weakness: null });
    expect(devices.at(-1)!.device).toBe('webgpu');
    const found = {
      isWorking: hasOpenVino,
      reason: hasOpenVino ? null : expect.stringContaining('tapir engines install'),
    };
    const precisions = hasBfloat16 ? ['float32', 'bfloat16'] : hasOpenVino ? ['float32'] : [];
    expect(engines).toMatchObject([
      { name: 'onnxruntime', version: runtime.version, isWorking: true, precisions: ['float32'] },
      { name: 'openvino', ...found, precisions },
    ]);
    if (process.platform === 'linux' && process.arch === 'x64') expect(instructionSets).toContain('avx2');
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
