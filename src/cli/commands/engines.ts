/** `tapir engines`: installs, lists and removes libraries that do not come with this package: other engines, and CUDA. */
import { labelOfUrl, shown } from '../../base/printable.js';
import { Argument, type Command } from 'commander';
import { ENGINE_PACKAGES, engineFolder, type InstallableEngine } from '../../base/engine-packages.js';
import { TapirError } from '../../base/errors.js';
import { packageRequire } from '../../base/package.js';
import {
  INSTALL_FIELDS,
  planInstall,
  runInstall,
  type InstallPlan,
  type PlannedWheel,
} from '../../learn/hub/wheels/install-engine.js';
import { findInstalledEngine, removeEngine } from '../../learn/hub/wheels/installed-engine.js';
import { formatBytes } from '../../base/html/numbers.js';
import { NO_DRIVER } from '../../run/runtime/devices/device-failure.js';
import { hasDriver } from '../../run/runtime/devices/driver-files.js';
import { linkInstalledProvider } from '../../run/runtime/devices/installed-cuda.js';
import { YES_FLAG, type CommonFlags } from '../flags/find-model.js';
import { addFlags } from '../flags/option-flags.js';
import { licenceLine, totalSize, withProgress } from '../flags/pull-model.js';
import { formatTable } from '../terminal/table.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';

interface InstallFlags extends CommonFlags {
  readonly indexUrl?: string;
  readonly wheel?: string[];
  readonly allowHttp: boolean;
}

const NAMES = Object.keys(ENGINE_PACKAGES) as InstallableEngine[];

export function addCommand(program: Command, terminal: Terminal): void {
  const engines = program
    .command('engines')
    .description('engines besides ONNX Runtime, which comes with this package, and CUDA for ONNX Runtime');
  const name = (): Argument => new Argument('<engine>', 'its name').choices(NAMES);
  engines
    .command('list')
    .description('list the engines, and where they are installed')
    .option('--json', 'print JSON', false)
    .action(({ json }: { readonly json: boolean }) => runList(terminal, json));
  const install = engines
    .command('install')
    .description(
      'download the libraries of an engine, or CUDA, from the Python package index; Python is not needed',
    )
    .addArgument(name())
    .option('--wheel <file...>', 'wheels that you have downloaded; nothing is asked of the network')
    .option(rare(YES_FLAG), 'install without asking', false)
    .option('--json', 'print JSON', false)
    .action((engine: InstallableEngine, flags: InstallFlags) => runEngineInstall(terminal, engine, flags));
  addFlags(install, INSTALL_FIELDS, { indexUrl: '--index-url <url>', allowHttp: '--allow-http' });
  engines
    .command('remove')
    .description('remove the installed libraries of an engine, of all versions')
    .addArgument(name())
    .action((engine: InstallableEngine) => runRemove(terminal, engine));
}

async function runEngineInstall(
  terminal: Terminal,
  name: InstallableEngine,
  { indexUrl, wheel, allowHttp, yes, json }: InstallFlags,
): Promise<void> {
  const { signal } = terminal;
  const plan = await planInstall(name, { indexUrl, wheel, allowHttp, signal });
  if (plan.wheels.length > 0) {
    showPlan(terminal, plan);
    if (!yes && !(await terminal.confirm('Install it?'))) throw notInstalled(name);
  }
  const engine = await withProgress(terminal, allowHttp, ({ onProgress }) =>
    runInstall({ ...plan, options: { ...plan.options, onProgress } }),
  );
  const missing = missingPackage(name);
  const unlinked = name === 'cuda' ? linkInstalledProvider() : undefined;
  if (unlinked !== undefined) terminal.err(`tapir: ${shown(unlinked)}\n`);
  if (json) {
    const isNew = plan.installed === null;
    printJson(terminal, { ...engine, isNew, missingPackage: missing });
    return;
  }
  const what = plan.installed ? 'already installed' : 'installed';
  const size = formatBytes(engine.sizeBytes);
  terminal.out(`${name} ${engine.version}: ${what}, ${size} in ${shown(engine.folder)}\n`);
  if (missing !== null)
    terminal.out(`one more step: npm install ${missing} (it calls the libraries of ${name})\n`);
  terminal.out(`use it with ${ENGINE_PACKAGES[name].use}\n`);
}

/** Prints what an installation downloads, from where and to where, and each licence. */
function showPlan(terminal: Terminal, { name, folder, wheels }: InstallPlan): void {
  const { content } = ENGINE_PACKAGES[name];
  const say = (line: string): void => terminal.err(`${shown(line)}\n`);
  if (name === 'cuda' && !hasDriver()) say(`${NO_DRIVER}; without it the libraries are of no use`);
  for (const line of wheels.flatMap((one) => wheelLines(name, one))) say(line);
  const sources = wheels.map(({ wheel: { from } }) =>
    'index' in from ? `package index: ${from.index}` : '',
  );
  for (const source of new Set(sources)) if (source !== '') say(source);
  if (wheels.length > 1)
    say(`together: ${totalSize(wheels.map(({ wheel }) => wheel))} in ${wheels.length} wheels`);
  say(`to: ${folder} (${content})`);
  const licences = new Map(wheels.map(({ package: { licence } }) => [licence.url, licence]));
  for (const licence of licences.values()) {
    const owners = wheels.filter((one) => one.package.licence.url === licence.url);
    const whose = wheels.length > 1 ? ` of ${owners.map((one) => one.package.project).join(', ')}` : '';
    terminal.err(licenceLine(licence, whose));
  }
  if (wheels.some((one) => one.package.licence.spdx.endsWith('Proprietary')))
    say(
      'NVIDIA’s libraries are proprietary: by installing them you accept the licences above; their texts are unpacked too',
    );
}

function wheelLines(name: InstallableEngine, { package: one, wheel }: PlannedWheel): string[] {
  const { filename, sizeBytes, sha256, from } = wheel;
  const what = one.project === name ? name : one.project;
  const size = sizeBytes === null ? 'unknown size' : formatBytes(sizeBytes);
  return [
    `${what} ${one.version}: ${filename}, ${size}, SHA-256 ${sha256}`,
    `from: ${'path' in from ? from.path : labelOfUrl(from.url)}`,
  ];
}

function notInstalled(name: InstallableEngine): TapirError<'DEPENDENCY_MISSING'> {
  const reason = `nothing was installed, because you did not confirm; run it again with ${YES_FLAG}`;
  return new TapirError('DEPENDENCY_MISSING', reason, {
    details: { package: name, reason },
  });
}

/** The npm package that calls the libraries; null if it is installed. */
function missingPackage(name: InstallableEngine): string | null {
  const { caller } = ENGINE_PACKAGES[name];
  if (caller === null) return null;
  try {
    packageRequire.resolve(caller);
    return null;
  } catch {
    return caller;
  }
}

async function runList(terminal: Terminal, json: boolean): Promise<void> {
  const engines = await Promise.all(
    NAMES.map(async (name) => ({
      name,
      version: ENGINE_PACKAGES[name].version,
      folder: engineFolder(name),
      installed: await findInstalledEngine(name),
      missingPackage: missingPackage(name),
    })),
  );
  if (json) return printJson(terminal, engines);
  const rows = engines.map(({ name, version, installed, folder }) => [
    name,
    version,
    installed ? formatBytes(installed.sizeBytes) : '',
    installed ? folder : `not installed: tapir engines install ${name}`,
  ]);
  const layout = { columns: terminal.columns, right: [2], names: [3] };
  terminal.out(formatTable([['engine', 'version', 'size', 'folder'], ...rows], layout));
  for (const { missingPackage: missing, name } of engines)
    if (missing !== null) terminal.out(`${name} also needs: npm install ${missing}\n`);
}

async function runRemove(terminal: Terminal, name: InstallableEngine): Promise<void> {
  const removed = await removeEngine(name);
  for (const path of removed) terminal.out(`removed ${shown(path)}\n`);
  if (removed.length === 0) terminal.out(`${name} is not installed\n`);
}
