/** What the Python at hand has of what the peers need. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Versions by package, why a package cannot be imported, and the folder of OpenVINO's libraries. */
export interface PythonPackages {
  readonly found: Readonly<Record<string, string>>;
  readonly failed: Readonly<Record<string, string>>;
  readonly openvinoLibs: string | null;
}

/** Asks a Python; a string says why it does not answer. */
export function inspectPython(python: string): PythonPackages | string {
  const script = fileURLToPath(new URL('python_packages.py', import.meta.url));
  try {
    return JSON.parse(
      execFileSync(python, [script], {
        encoding: 'utf8',
        stdio: 'pipe',
        env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
      }),
    ) as PythonPackages;
  } catch (error) {
    return `${python} does not run: ${(error as Error).message.split('\n')[0]}`;
  }
}

/** Why a Python cannot do it; undefined if it can. */
export function needsPython(
  python: PythonPackages | string,
  packages: readonly string[],
): string | undefined {
  if (typeof python === 'string') return python;
  const reasons = packages.flatMap((name) =>
    python.failed[name] === undefined ? [] : [`${name}: ${python.failed[name]}`],
  );
  return reasons.length === 0 ? undefined : reasons.join('; ');
}
