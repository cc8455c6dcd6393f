/** CoreML and DirectML: refused elsewhere, and what onnxruntime-node is asked for where they are. Neither was ever run. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { deviceName, readDevice } from '../../../../src/run/runtime/lanes/device.js';
import { listDevices } from '../../../../src/run/runtime/devices/device-list.js';
import { devicesOfPlatform, whyNotOnPlatform } from '../../../../src/run/runtime/devices/platform-devices.js';
import { chooseBindings, withBinding } from '../../../../src/run/runtime/engines/onnxruntime.js';
import { ortOptions } from '../../../../src/run/runtime/engines/onnxruntime-node.js';
import { readSessionOptions } from '../../../../src/run/runtime/lanes/session-options.js';

const describeLane = (device: string) => ({
  model: new Uint8Array(),
  externalFolder: undefined,
  device: readDevice('device', device),
  session: readSessionOptions({}),
});

afterEach(() => void vi.restoreAllMocks());

describe('devices of one platform', () => {
  it.each([
    ['darwin', ['coreml']],
    ['win32', ['dml']],
    ['linux', []],
  ] as const)('on %s are listed there only', async (platform, kinds) => {
    expect(devicesOfPlatform(platform)).toEqual(kinds);
    vi.spyOn(process, 'platform', 'get').mockReturnValue(platform);
    const listed = await listDevices();
    expect(listed.map(({ type }) => type).filter((type) => type === 'coreml' || type === 'dml')).toEqual(
      kinds,
    );
  });

  it('are refused elsewhere, with the platform', async () => {
    const linux = { platform: 'linux', arch: 'x64' } as const;
    expect(whyNotOnPlatform('coreml', linux)).toBe('CoreML is part of macOS, and this is linux (x64)');
    expect(whyNotOnPlatform('dml', linux)).toBe('DirectML is part of Windows, and this is linux (x64)');
    expect(whyNotOnPlatform('dml', { platform: 'win32', arch: 'arm64' })).toBeUndefined();
    expect(whyNotOnPlatform('webgpu', linux)).toBeUndefined();
    vi.spyOn(process, 'platform', 'get').mockReturnValue('linux');
    await expect(withBinding('auto').openSession(describeLane('coreml'))).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      details: { device: 'coreml' },
      message: expect.stringContaining('macOS'),
    });
  });

  it('are run by onnxruntime-node, which gets their names and numbers', () => {
    const session = readSessionOptions({});
    expect(chooseBindings('auto', { type: 'coreml' }, session)).toEqual(['node']);
    const options = (device: string) => {
      const description = describeLane(device);
      return ortOptions(description, description.device);
    };
    expect(options('coreml')).toMatchObject({ executionProviders: [{ name: 'coreml' }] });
    expect(options('dml:1')).toMatchObject({
      executionProviders: [{ name: 'dml', deviceId: 1 }],
      enableMemPattern: false,
    });
  });

  it('have names as users write them', () => {
    expect(deviceName(readDevice('device', 'dml'))).toBe('dml');
    expect(deviceName(readDevice('device', 'dml:1'))).toBe('dml:1');
    expect(() => readDevice('device', 'coreml:1')).toThrow('there is only one "coreml"');
    expect(() => readDevice('device', 'rocm')).toThrow('webgpu');
    expect(() => readDevice('device', 'OpenVINOExecutionProvider')).toThrow(
      'with option "engine" as "openvino"',
    );
  });
});
