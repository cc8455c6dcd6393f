/** Downloads from the command line: the summary before, and the line of progress. */
import { counted, shown } from '../../base/printable.js';
import type { KnownModel } from '../../learn/hub/known-models.js';
import { PULL_DEFAULTS, type PullOptions } from '../../learn/hub/pull-model.js';
import { pullRepository, type RepositoryPlan } from '../../learn/hub/pull-repository.js';
import type { PulledModel } from '../../learn/hub/pulled-model.js';
import { formatBytes } from '../../base/html/numbers.js';
import { withProgressLine } from '../terminal/progress-view.js';
import type { Terminal } from '../terminal/terminal.js';

/** Formats the licence. Print it before the download, because it may be a reason not to start. */
export function licenceLine({ spdx, url }: KnownModel['licence'], whose = ''): string {
  return `licence${whose}: ${shown(`${spdx} (${url})`)}\n`;
}

/** The size of files together, some of which may not be known. */
export function totalSize(files: readonly { readonly sizeBytes: number | null }[]): string {
  const total = files.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
  return `${files.some(({ sizeBytes }) => sizeBytes === null) ? 'at least ' : ''}${formatBytes(total)}`;
}

/** Prints commit, files, size and licence of a planned download. */
export function showPlan(terminal: Terminal, { reference, listing, files, missing }: RepositoryPlan): void {
  const [model, ...others] = files;
  const size = `${totalSize(missing)} to download`;
  const what = `${model!.name} and ${counted(others.length, 'more file')}`;
  const where = `${reference.repository} at ${listing.commit.slice(0, 12)}`;
  terminal.err(`${shown(`${where}: ${what}, ${missing.length === 0 ? 'all in the cache' : size}`)}\n`);
  terminal.err(licenceLine(listing.licence));
}

/** Runs a pull with the command line's options, and shows its progress. */
export function withProgress<Result>(
  terminal: Terminal,
  allowHttp: boolean,
  pull: (options: PullOptions) => Promise<Result>,
): Promise<Result> {
  return withProgressLine(terminal, (watch) => pull({ ...PULL_DEFAULTS, allowHttp, ...watch }));
}

export function pullPlanned(terminal: Terminal, plan: RepositoryPlan): Promise<PulledModel> {
  return withProgress(terminal, plan.access.options.allowHttp, (options) =>
    pullRepository({ ...plan, access: { ...plan.access, options } }),
  );
}
