/** What tapir says that it can do here. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The command as it is installed. */
const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { bin: { tapir: string } };
export const CLI = join(ROOT, bin.tapir);

/** An engine in `tapir doctor --json`. */
export interface EngineReport {
  readonly name: string;
  readonly isWorking: boolean;
  readonly reason: string | null;
  /** Where its libraries are; null if there are none, or if npm installs them. */
  readonly folder: string | null;
}

/** Asks for OpenVINO, with libraries that were named or with those that tapir finds. */
export function askForOpenvino(libraries: string | undefined): EngineReport {
  const env = { ...process.env, ...(libraries === undefined ? {} : { OPENVINO_LIBS: libraries }) };
  const { stdout, stderr } = spawnSync(process.execPath, [CLI, 'doctor', '--json'], {
    encoding: 'utf8',
    env,
  });
  try {
    const { engines } = JSON.parse(stdout) as { readonly engines: readonly EngineReport[] };
    return engines.find(({ name }) => name === 'openvino')!;
  } catch {
    const reason = `tapir doctor fails: ${stderr.trim().split('\n').at(-1)}`;
    return { name: 'openvino', isWorking: false, reason, folder: libraries ?? null };
  }
}
