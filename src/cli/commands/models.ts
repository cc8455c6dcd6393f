/** `tapir models`: lists the known models, and downloads them into the cache. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { copyAtomically, outputExists } from '../../base/atomic-file.js';
import type { DownloadProgress } from '../../hub/download-file.js';
import { findKnownModel, type KnownModel } from '../../hub/known-models.js';
import { listKnownModels } from '../../hub/list-known-models.js';
import { pullModel, type PulledFile } from '../../hub/pull-model.js';
import { formatBytes } from '../../apps/pages/numbers.js';
import { formatTable, printable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

interface ListFlags {
  readonly manifest?: string;
  readonly json: boolean;
}

interface PullFlags extends ListFlags {
  readonly out?: string;
  readonly allowHttp: boolean;
}

/** Adds `tapir models`. */
export function addModelsCommand(program: Command, terminal: Terminal): void {
  const models = program.command('models').description('models with trained weights that can be downloaded');
  models
    .command('list')
    .description('list the known models')
    .option('--manifest <file>', 'another list of models, in the same format')
    .option('--json', 'print JSON', false)
    .action((flags: ListFlags) => runList(terminal, flags));
  models
    .command('pull')
    .description('download a known model into the cache, checked by its SHA-256')
    .argument('<name>', 'a name of the list')
    .option('--manifest <file>', 'another list of models, in the same format')
    .option('-o, --out <file>', 'copy the model file there, and external weights next to it')
    .option('--allow-http', 'also fetch from addresses without encryption', false)
    .option('--json', 'print JSON', false)
    .action((name: string, flags: PullFlags) => runPull(terminal, name, flags));
}

async function runList(terminal: Terminal, { manifest, json }: ListFlags): Promise<void> {
  const models = await listKnownModels({ manifest });
  if (json) {
    terminal.out(`${JSON.stringify(models, null, 2)}\n`);
    return;
  }
  const rows = models.map((model) => [
    model.name,
    sizeText(model),
    model.licence.spdx,
    model.transform ?? '(see note)',
    model.nodes.map(({ name }) => name).join(', '),
    model.cached === null ? '' : 'cached',
  ]);
  terminal.out(formatTable([['name', 'size', 'licence', 'transform', 'ask for', ''], ...rows], [1]));
}

function sizeText({ files }: KnownModel): string {
  const sizes = files.map(({ sizeBytes }) => sizeBytes);
  return sizes.includes(null) ? '?' : formatBytes(sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0));
}

async function runPull(terminal: Terminal, name: string, flags: PullFlags): Promise<void> {
  const model = findKnownModel(await listKnownModels({ manifest: flags.manifest }), name);
  const { out, allowHttp, json } = flags;
  if (out !== undefined) checkFree(out, model);
  // Shown before the download, because the licence may be a reason not to start it.
  terminal.err(`${printable(model.description)}\n`);
  terminal.err(`licence: ${printable(`${model.licence.spdx} (${model.licence.url})`)}\n`);
  if (model.files.some(({ sha256 }) => sha256 === null))
    terminal.err(
      'its SHA-256 is not in the list: the first download is trusted, and its checksum recorded beside it\n',
    );
  const progress = createProgress(terminal);
  let files: readonly PulledFile[];
  try {
    ({ files } = await pullModel(model, {
      allowHttp,
      signal: terminal.signal,
      onProgress: (now) => progress.show(now),
    }));
  } finally {
    progress.end();
  }
  const path = out ?? files[0]!.path;
  if (out !== undefined) await copyOut(files, out);
  if (json) {
    terminal.out(`${JSON.stringify({ name: model.name, path, files }, null, 2)}\n`);
    return;
  }
  report(terminal, model, files, path);
}

function report(terminal: Terminal, model: KnownModel, files: readonly PulledFile[], path: string): void {
  for (const { name, sizeBytes, sha256, checked, isNew } of files) {
    const how = {
      list: 'as listed',
      record: 'as at the first download',
      first: 'recorded: the first download is trusted',
    }[checked];
    const what = isNew ? 'downloaded' : 'already there';
    terminal.out(`${name}: ${what}, ${formatBytes(sizeBytes)}, SHA-256 ${sha256} (${how})\n`);
  }
  for (const { name, meaning } of model.nodes)
    terminal.out(`  --return ${printable(name)}  ${printable(meaning)}\n`);
  if (model.transform !== null) terminal.out(`  --transform ${printable(model.transform)}\n`);
  if (model.note !== '') terminal.out(`  ${printable(model.note)}\n`);
  terminal.out(`${path}\n`);
}

interface ProgressLine {
  show(progress: DownloadProgress): void;
  end(): void;
}

/** One line that is rewritten; only on a terminal. */
function createProgress(terminal: Terminal): ProgressLine {
  let shown = 0;
  let isOpen = false;
  return {
    show({ file, bytes, totalBytes }) {
      if (!terminal.isTerminal || Date.now() - shown < 100) return;
      shown = Date.now();
      isOpen = true;
      const of = totalBytes === null ? '' : ` of ${formatBytes(totalBytes)}`;
      terminal.err(`\r\u001b[K${file}: ${formatBytes(bytes)}${of}`);
    },
    end() {
      if (isOpen) terminal.err('\n');
      isOpen = false;
    },
  };
}

/** Targets of a model's files. External weights keep their names, because the model refers to them. */
function targets(out: string, files: readonly { readonly name: string }[]): string[] {
  return files.map(({ name }, i) => (i === 0 ? out : join(dirname(out), name)));
}

function checkFree(out: string, { files }: KnownModel): void {
  const taken = targets(out, files).find((path) => existsSync(path));
  if (taken !== undefined) throw outputExists(taken);
}

async function copyOut(files: readonly PulledFile[], out: string): Promise<void> {
  for (const [i, path] of targets(out, files).entries()) {
    await copyAtomically(files[i]!.path, path);
  }
}
