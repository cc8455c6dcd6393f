/** `tapir models pull`: downloads a model into the cache. */
import { isPortableName } from '../../../base/files/portable-name.js';
import { shown } from '../../../base/printable.js';
import { existsSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import type { Command } from 'commander';
import { copyAtomically, haveSameBytes, outputExists } from '../../../base/atomic-file.js';
import { makeFolder } from '../../../base/make-folder.js';
import { findKnownModel } from '../../../learn/hub/known-models.js';
import { listKnownModels } from '../../../learn/hub/list-known-models.js';
import { PULL_FIELDS, pullModel } from '../../../learn/hub/pull-model.js';
import { buildTimm, isTimmReference, timmRepository } from '../../../learn/zoo/pull-timm.js';
import {
  findTorchvisionModel,
  isTorchvisionReference,
  pullTorchvision,
} from '../../../learn/zoo/pull-torchvision.js';
import { planRepository, pullRepository, readOffline } from '../../../learn/hub/pull-repository.js';
import type { PulledModel } from '../../../learn/hub/pulled-model.js';
import { isRepositoryReference, parseRepositoryReference } from '../../../learn/hub/repository-reference.js';
import { formatBytes } from '../../../base/html/numbers.js';
import { addFlags } from '../../flags/option-flags.js';
import { licenceLine, showPlan, withProgress } from '../../flags/pull-model.js';
import { readOwnTransform, saveWithSettings, settingsFor } from '../../flags/save-flags.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { transformText } from './list.js';

interface PullFlags {
  readonly manifest?: string;
  readonly json: boolean;
  readonly file?: string;
  readonly variant?: string;
  readonly out?: string;
  readonly allowHttp: boolean;
}

export function addCommand(models: Command, terminal: Terminal): void {
  const pulling = models
    .command('pull')
    .description('download a known model, or one of a repository, into the cache, checked by its SHA-256')
    .argument(
      '<name>',
      'a name of the list, torchvision/NETWORK[@WEIGHTS], timm/NETWORK.WEIGHTS, or hf:ORG/REPO[@REVISION][#FILE] of the Hugging Face hub',
    )
    .option('-o, --out <file>', 'copy the model file there, and external weights and its own file next to it')
    .option('--json', 'print JSON', false)
    .action((name: string, flags: PullFlags) => runPull(terminal, name, flags));
  addFlags(pulling, PULL_FIELDS, {
    manifest: '--manifest <file>',
    file: '--file <path>',
    variant: '--variant <name>',
    allowHttp: '--allow-http',
  });
}

async function runPull(terminal: Terminal, name: string, flags: PullFlags): Promise<void> {
  const { out, json } = flags;
  const pulled = await pull(terminal, name, flags);
  const path = out ?? pulled.path;
  if (out !== undefined) await copyOut(terminal, pulled, out);
  const { model, files } = pulled;
  if (json) printJson(terminal, { name: model.name, licence: model.licence, path, files });
  else report(terminal, pulled, path);
}

async function pull(terminal: Terminal, name: string, flags: PullFlags): Promise<PulledModel> {
  if (isRepositoryReference(name)) return pullFromRepository(terminal, name, flags);
  if (isTorchvisionReference(name)) return pullWeights(terminal, name, flags);
  if (!isTimmReference(name)) return pullKnown(terminal, name, flags);
  return buildTimm(name, await pullFromRepository(terminal, timmRepository(name), flags), undefined);
}

async function pullKnown(terminal: Terminal, name: string, flags: PullFlags): Promise<PulledModel> {
  const { out, allowHttp, manifest, file, variant } = flags;
  const model = findKnownModel(await listKnownModels({ manifest }), name);
  if (out !== undefined) checkFree(out);
  terminal.err(`${shown(model.description)}\n${licenceLine(model.licence)}`);
  if (model.files.some(({ sha256 }) => sha256 === null))
    terminal.err(
      'its SHA-256 is not in the list: the first download is trusted, and its checksum recorded beside it\n',
    );
  return withProgress(terminal, allowHttp, (options) => pullModel(model, { ...options, file, variant }));
}

async function pullWeights(terminal: Terminal, name: string, flags: PullFlags): Promise<PulledModel> {
  const { model } = await findTorchvisionModel(name, flags.manifest);
  if (flags.out !== undefined) checkFree(flags.out);
  terminal.err(`${shown(model.description)}\n${licenceLine(model.licence)}`);
  const { allowHttp, manifest } = flags;
  return withProgress(terminal, allowHttp, ({ signal, onProgress }) =>
    pullTorchvision(name, { allowHttp, manifest, signal, onProgress }),
  );
}

async function pullFromRepository(terminal: Terminal, name: string, flags: PullFlags): Promise<PulledModel> {
  const reference = parseRepositoryReference(name, flags);
  const cached = await readOffline(reference, undefined);
  if (cached) return cached;
  return withProgress(terminal, flags.allowHttp, async (options) => {
    const plan = await planRepository(reference, options);
    if (flags.out !== undefined) checkFree(flags.out);
    showPlan(terminal, plan);
    return pullRepository(plan);
  });
}

function report(terminal: Terminal, { model, files }: PulledModel, path: string): void {
  for (const { name, sizeBytes, sha256, checked, isNew } of files) {
    const how = {
      list: 'as listed',
      record: 'as at the first download',
      first: 'not compared: the first download is trusted',
    }[checked];
    const what = isNew ? 'downloaded' : 'already there';
    terminal.out(`${shown(name)}: ${what}, ${formatBytes(sizeBytes)}, SHA-256 ${sha256} (${how})\n`);
  }
  for (const { name, meaning } of model.nodes) terminal.out(`  --return ${shown(name)}  ${shown(meaning)}\n`);
  if (model.transform !== null)
    terminal.out(`  --transform auto: ${transformText(model)}, beside the model\n`);
  if (model.note !== '') terminal.out(`  ${shown(model.note)}\n`);
  terminal.out(`${path}\n`);
}

/** Refuses before the download. Whether other files may stay is known after it: a killed run may have written the same. */
function checkFree(out: string): void {
  if (existsSync(out)) throw outputExists(out);
}

async function copyOut(terminal: Terminal, { files, path }: PulledModel, out: string): Promise<void> {
  checkFree(out);
  // The configurations of a repository stay in the cache.
  const [model, ...weights] = files.filter(({ name }) => !/\.(?:json|txt)$/.test(name));
  // The model comes last: where it is, its weights and its transform are.
  const copy = async (): Promise<void> => {
    // Weights keep their names, because the model refers to them.
    for (const { name, path: from } of weights.toReversed()) {
      const place = placeBeside(model!.name, name);
      if (place !== undefined) await copyNew(from, join(dirname(out), place));
    }
    await copyNew(model!.path, out);
  };
  await makeFolder(dirname(out));
  const kept = ['labels', 'dynamicBatch', 'engine', 'precision', 'device'] as const;
  const settings = settingsFor(readOwnTransform(terminal, path, out), path, kept);
  await saveWithSettings(out, settings, false, copy);
}

/** Where a file lies beside a model, as a path from its folder; undefined for one above it, which no model may refer to. */
export function placeBeside(model: string, name: string): string | undefined {
  const place = posix.relative(posix.dirname(model), name);
  return place.split('/').every(isPortableName) ? place : undefined;
}

async function copyNew(from: string, to: string): Promise<void> {
  if (await haveSameBytes(from, to)) return;
  if (existsSync(to)) throw outputExists(to);
  await makeFolder(dirname(to));
  await copyAtomically(from, to);
}
