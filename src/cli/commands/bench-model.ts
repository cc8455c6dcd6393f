/** `tapir bench model`: the batch size at which a model is fastest. */
import { measureModel, type BatchMeasurement, type MeasureModelReport } from '../../extract/measure-model.js';
import { readDevice, type Device } from '../../runtime/device.js';
import { findModelFile } from '../flags/find-model.js';
import { readPartFlags, type PartFlags } from '../flags/part-flags.js';
import { readReturnFlags } from '../flags/return-flags.js';
import { formatTable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

export interface BenchModelFlags extends PartFlags {
  readonly return: readonly string[];
  readonly device: string;
  readonly devices?: string;
  readonly batches?: readonly number[];
  readonly sessions: readonly number[];
  readonly seconds: number;
  readonly yes: boolean;
  readonly json: boolean;
}

/** Measures and reports. */
export async function runBenchModel(terminal: Terminal, path: string, flags: BenchModelFlags): Promise<void> {
  const { batches, sessions, seconds, json } = flags;
  const names = flags.devices === undefined ? [flags.device] : flags.devices.split(',');
  // Checked here as well, so that the error names the flag.
  for (const name of names) readDevice(flags.devices === undefined ? '--device' : '--devices', name);
  const report = await measureModel(
    await findModelFile(path, terminal, flags.yes),
    readReturnFlags(flags.return),
    {
      ...readPartFlags(flags),
      devices: names as Device[],
      ...(batches === undefined ? {} : { sizes: batches }),
      sessions,
      seconds,
      signal: terminal.signal,
      onMeasured: (measured) => {
        if (terminal.isTerminal) terminal.err(`batch ${measured.rows}: ${rateText(measured)} images/s\n`);
      },
    },
  );
  if (json) {
    const { devices, runtime, ...rest } = report;
    const result = { model: path, return: flags.return, devices, runtime, seconds, ...rest };
    terminal.out(`${JSON.stringify(result, null, 2)}\n`);
  } else terminal.out(reportText(report));
}

function reportText({ devices, measured, best, notes }: MeasureModelReport): string {
  const header = ['batch', 'sessions', 'images/s', 'min', 'max', 'ms per run', 'first ms', ''];
  const rows = measured.map((each) => [
    String(each.rows),
    String(each.sessionsPerDevice),
    rateText(each),
    each.rowsPerSecond.min.toFixed(1),
    each.rowsPerSecond.max.toFixed(1),
    each.msPerRun.toFixed(1),
    each.firstMs.toFixed(1),
    each === best ? '<' : '',
  ]);
  const most = Math.max(...measured.map(({ rowsPerSecond }) => rowsPerSecond.median));
  const sessions = best.sessionsPerDevice === 1 ? '' : ` with ${best.sessionsPerDevice} sessions per device`;
  return [
    formatTable([header, ...rows], [0, 1, 2, 3, 4, 5, 6]),
    `\nbatch ${best.rows}${sessions} on ${devices.join(', ')}: ${rateText(best)} images/s`,
    `, the smallest within 3 % of the most (${most.toFixed(1)})\n`,
    ...notes.map((note) => `note: ${note}\n`),
  ].join('');
}

function rateText({ rowsPerSecond }: BatchMeasurement): string {
  return rowsPerSecond.median.toFixed(1);
}
