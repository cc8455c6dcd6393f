/** `tapir engines`: what it says before it installs, and what an interrupted installation leaves. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { createProgram } from '../../../src/cli/program.js';
import { exitCodeOf, messageOf } from '../../../src/cli/terminal/exit-code.js';
import type { Terminal } from '../../../src/cli/terminal/terminal.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runScript, runTapir } from '../../support/run.js';
import { CAN_INSTALL_CUDA } from '../../../src/run/runtime/devices/installed-cuda.js';
import {
  makeCudaWheels,
  makeWheel,
  sha256Of,
  startIndex,
  tableOf,
  wheelNamed,
} from '../../support/wheels.js';

const scratch = scratchFolder();
const bytes = makeWheel();
const files: Record<string, Uint8Array> = { [wheelNamed()]: bytes, ...makeCudaWheels() };
vi.mock('../../../src/learn/hub/wheels/engine-wheels.js', () => ({
  ENGINE_WHEELS: { get: (system: string) => tableOf(files).get(system) },
}));
let count = 0;

/** The environment of a user without settings, and where the engines go. */
function createUser(): { env: NodeJS.ProcessEnv; engines: string } {
  const home = join(scratch, String(count++));
  const env = { XDG_CACHE_HOME: home, HOME: home, LOCALAPPDATA: home };
  const cache = process.platform === 'darwin' ? join(home, 'Library/Caches') : home;
  return { env, engines: join(cache, 'onnx-tapir/engines') };
}

const INSTALL = ['engines', 'install', 'openvino'];

/** Runs the command in this process, with the small wheels; `answer` is what the user says. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv, answer = false) {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const said = { stdout: '', stderr: '', questions: [] as string[] };
  const terminal = {
    signal: new AbortController().signal,
    isTerminal: false,
    out: (text: string) => (said.stdout += text),
    err: (text: string) => (said.stderr += text),
    confirm: (question: string) => Promise.resolve(said.questions.push(question) > 0 && answer),
  } as unknown as Terminal;
  let code = 0;
  try {
    const program = await createProgram(terminal, [...args]);
    await program.parseAsync([...args], { from: 'user' });
  } catch (error) {
    code = exitCodeOf(error);
    said.stderr += messageOf(error);
  } finally {
    vi.unstubAllEnvs();
  }
  return { code, ...said };
}

describe('tapir engines', () => {
  it('says what it would do, and does nothing without an answer', async () => {
    const { url, requests } = await startIndex({ files, login: 'me:hunter2' });
    const { env, engines } = createUser();
    const indexUrl = `${url.replace('//', '//me:hunter2@')}/simple`;
    const refused = await run([...INSTALL, '--index-url', indexUrl], env);
    expect(refused).toMatchObject({ code: 3, stdout: '' });
    expect(refused.stderr).toContain(`openvino 2026.4.1: ${wheelNamed()}, `);
    expect(refused.stderr).toContain(`SHA-256 ${sha256Of(bytes)}\n`);
    expect(refused.stderr).toContain(`from: ${url}/files/${wheelNamed()}\npackage index: ${url}/simple/\n`);
    expect(refused.stderr).toContain(`to: ${join(engines, 'openvino-2026.4.1')} (`);
    expect(refused.stderr).toContain('licence: Apache-2.0');
    expect(refused.stderr).toMatch(
      /nothing was installed, because you did not confirm; run it again with --yes \[DEPENDENCY_MISSING\]\n$/,
    );
    expect(refused.stderr).not.toContain('hunter2');
    expect(requests.length).toBe(1);
    expect(existsSync(engines)).toBe(false);
  });

  it.each([true, false])('asks, and does as answered (%s)', async (answer) => {
    const { env, engines } = createUser();
    const wheel = join(scratch, wheelNamed());
    writeFileSync(wheel, bytes);
    const { code, stderr, questions } = await run([...INSTALL, '--wheel', wheel], env, answer);
    expect([code, questions]).toEqual([answer ? 0 : 3, ['Install it?']]);
    expect(stderr).toMatch(new RegExp(`\\nfrom: .*${wheelNamed()}\\nto: .*\\nlicence: .*\\n`));
    expect(existsSync(join(engines, 'openvino-2026.4.1'))).toBe(answer);
  });

  it('installs, lists and removes', async () => {
    const { url } = await startIndex({ files });
    const { env, engines } = createUser();
    const folder = join(engines, 'openvino-2026.4.1');
    const before = await run(['engines', 'list'], env);
    expect(before.stdout).toMatch(/^openvino +2026\.4\.1 +not installed: tapir engines install openvino$/m);
    const withIndex = { ...env, PIP_INDEX_URL: `${url}/simple` };
    const first = await run([...INSTALL, '--yes'], withIndex);
    expect(first).toMatchObject({ code: 0 });
    expect(first.stdout).toMatch(/^openvino 2026\.4\.1: installed, .* in /);
    expect(first.stdout).toContain("use it with --engine openvino (engine: 'openvino')");
    expect(first.stderr).toContain(`package index: ${url}/simple/\n`);
    const again = await run([...INSTALL, '--json'], env);
    expect(JSON.parse(again.stdout)).toMatchObject({ name: 'openvino', folder, isNew: false });
    expect(again.stderr).toBe('');
    expect((await run(['engines', 'list'], env)).stdout).toContain(`  ${folder}\n`);
    const listed = await run(['engines', 'list', '--json'], env);
    expect((JSON.parse(listed.stdout) as object[]).slice(0, 2)).toMatchObject([
      { name: 'openvino', installed: { wheels: [{ filename: wheelNamed() }] } },
      { name: 'cuda', installed: null, missingPackage: null },
    ]);
    const removed = await run(['engines', 'remove', 'openvino'], env);
    expect(removed.stdout).toBe(`removed ${folder}\n`);
    expect((await run(['engines', 'remove', 'openvino'], env)).stdout).toBe('openvino is not installed\n');
  });

  it.runIf(CAN_INSTALL_CUDA)(
    'shows each wheel of CUDA and each licence, then installs and removes',
    async () => {
      const { url } = await startIndex({ files });
      const { env, engines } = createUser();
      const asked = ['engines', 'install', 'cuda', '--index-url', `${url}/simple`];
      const refused = await run(asked, env);
      expect(refused).toMatchObject({ code: 3, stdout: '' });
      for (const [name, content] of Object.entries(makeCudaWheels())) {
        expect(refused.stderr).toMatch(
          new RegExp(`^\\S+ \\S+: ${name}, .*SHA-256 ${sha256Of(content)}$`, 'm'),
        );
        expect(refused.stderr).toContain(`from: ${url}/files/${name}\n`);
      }
      expect(refused.stderr.match(/^package index: /gm)).toHaveLength(1);
      expect(refused.stderr).toMatch(/^together: .* in 8 wheels$/m);
      expect(refused.stderr).toContain('licence of onnxruntime-gpu: MIT ');
      expect(refused.stderr).toMatch(
        /^licence of nvidia-cuda-runtime, nvidia-cublas, .*: LicenseRef-NVIDIA-Proprietary /m,
      );
      expect(refused.stderr).toMatch(/^licence of nvidia-cudnn-cu13: /m);
      expect(refused.stderr).toMatch(/^NVIDIA’s libraries are proprietary: by installing them you accept/m);
      expect(existsSync(engines)).toBe(false);
      const installed = await run([...asked, '--yes'], env);
      expect(installed).toMatchObject({ code: 0 });
      expect(installed.stdout).toMatch(/^cuda 1\.30\.0: installed, .*\nuse it with --device cuda /);
      expect(readdirSync(join(engines, 'cuda-1.30.0'))).toContain('runtimes');
      expect((await run(['engines', 'list'], env)).stdout).toContain(join(engines, 'cuda-1.30.0'));
      const removed = await run(['engines', 'remove', 'cuda'], env);
      expect(removed.stdout).toBe(`removed ${join(engines, 'cuda-1.30.0')}\n`);
    },
  );

  it('ends with 2 for an unknown engine and a wrong wheel', async () => {
    const { env } = createUser();
    const unknown = await runTapir(['engines', 'install', 'openvine'], { env });
    expect(unknown).toMatchObject({ code: 2, stdout: '' });
    expect(unknown.stderr).toContain('openvino');
    const wrong = await runTapir([...INSTALL, '--wheel', 'nowhere.whl'], { env });
    expect(wrong).toMatchObject({ code: 2, stdout: '' });
    expect(wrong.stderr).toMatch(/--wheel must be a wheel of openvino 2026\.4\.1 for this system, /);
  });

  it('killed while it unpacks, leaves nothing that counts, and then installs', async () => {
    const { env, engines } = createUser();
    const wheel = join(scratch, wheelNamed());
    // Takes seconds to write.
    const large = makeWheel([
      { name: 'openvino/libs/liblarge.so', bytes: Buffer.alloc(2 ** 28), isDeflated: true },
    ]);
    writeFileSync(wheel, large);
    const partial = (): boolean =>
      existsSync(engines) &&
      readdirSync(engines, { recursive: true, encoding: 'utf8' }).some((name) => name.endsWith('.partial'));
    const install = (content: Uint8Array): string => `
      const { planInstall, runInstall } = await import(${JSON.stringify(projectPath('build/modules/learn/hub/wheels/install-engine.js'))});
      const wheels = [{ filename: ${JSON.stringify(wheelNamed())}, sha256: '${sha256Of(content)}' }];
      const table = new Map([[\`\${process.platform} \${process.arch}\`, wheels]]);
      await runInstall(await planInstall('openvino', { wheel: ${JSON.stringify(wheel)} }, table));`;
    const killed = await runScript(install(large), { env, signal: { name: 'SIGKILL', when: partial } });
    expect(killed.signal).toBe('SIGKILL');
    expect(partial()).toBe(true);
    expect(existsSync(join(engines, 'openvino-2026.4.1'))).toBe(false);
    expect((await runTapir(['engines', 'list'], { env })).stdout).toContain('not installed');
    mkdirSync(join(engines, '.gone-1-abc'));
    writeFileSync(wheel, bytes);
    expect(await runScript(install(bytes), { env })).toMatchObject({ code: 0 });
    expect(readdirSync(engines)).toEqual(['openvino-2026.4.1']);
  });
});
