/** Names in files that quantizers, converters and optimisers rewrote, against what torch's hooks see. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isTapirError, openModel, pruneModel } from 'onnx-tapir';

/** How the names of one tool's files came out. */
export interface ToolNames {
  readonly tool: string;
  readonly exporter: 'ts' | 'dynamo';
  readonly right: number;
  readonly wrong: readonly string[];
  /** By code. */
  readonly refused: Readonly<Record<string, number>>;
}

/** Makes the files, cuts each name out, and asks onnxruntime in Python what the cuts compute. */
export async function judgeNames(python: string, folder: string): Promise<ToolNames[]> {
  const script = fileURLToPath(new URL('names.py', import.meta.url));
  execFileSync(python, [script, 'make', folder], { stdio: 'inherit' });
  const jobs = JSON.parse(readFileSync(join(folder, 'jobs.json'), 'utf8')) as {
    readonly file: string;
    readonly names: readonly string[];
  }[];
  // oxlint-disable-next-line no-await-in-loop -- one model in memory at a time
  for (const { file, names } of jobs) await cutNames(join(folder, file), names);
  execFileSync(python, [script, 'judge', folder], { stdio: 'inherit' });
  return JSON.parse(readFileSync(join(folder, 'table.json'), 'utf8')) as ToolNames[];
}

/** Writes a file with all names that are answered as outputs, and what became of each name. */
async function cutNames(path: string, names: readonly string[]): Promise<void> {
  const model = await openModel(path);
  const found: Record<string, { readonly key: string } | { readonly code: string }> = {};
  const asked: Record<string, string> = {};
  for (const [i, name] of names.entries()) {
    const key = `name${i}`;
    try {
      // oxlint-disable-next-line no-await-in-loop -- a few milliseconds each
      await pruneModel(model, { [name]: key }, { fillTypes: false });
      found[name] = { key };
      asked[name] = key;
    } catch (error) {
      if (!isTapirError(error)) throw error;
      found[name] = { code: error.code };
    }
  }
  if (Object.keys(asked).length > 0)
    await (await pruneModel(model, asked, { fillTypes: false })).save(`${path}.cut`, { overwrite: true });
  writeFileSync(`${path}.json`, JSON.stringify(found));
}

const ABOUT = `## Names after quantisers, converters and optimisers

Networks of torchvision, small, and others with names of their own, from both exporters of PyTorch, through quantisers, converters and optimisers (\`names.py\`): \`dyn\` is \`quantize_dynamic\`, \`qdq\` and \`qop\` are \`quantize_static\` in both formats, \`pre\` in front of one is
\`quant_pre_process\`, \`f16\` is onnxconverter-common with all operators, some left in float32 (\`block\`) or one (\`node\`), \`nbits\` is MatMulNBits, \`slim\` and \`sim\` are onnxslim and onnxsim, \`basic\`, \`extended\` and \`all\` ONNX Runtime's levels. Each module's name is cut out, and the cut,
run by onnxruntime without optimisation, must give what torch's hook saw. About a quarter of the names has no value in any of these files, the float ones included: folded convolutions, Dropout, Identity.`;

/** As Markdown. */
export function describeNames(rows: readonly ToolNames[]): string {
  const head = ['tool', 'exporter', 'right', '**wrong**', 'refused', 'by code'];
  const refusedOf = ({ refused }: ToolNames): number =>
    Object.values(refused).reduce((sum, count) => sum + count, 0);
  const lines = rows.map((row) => [
    row.tool,
    row.exporter === 'ts' ? 'TorchScript' : 'dynamo',
    row.right,
    row.wrong.length,
    refusedOf(row),
    Object.entries(row.refused)
      .map(([code, count]) => `${code} ${count}`)
      .join(', '),
  ]);
  const sum = (count: (row: ToolNames) => number): number =>
    rows.reduce((total, row) => total + count(row), 0);
  const total = ['all', '', sum((row) => row.right), sum((row) => row.wrong.length), sum(refusedOf), ''];
  const table = [head, head.map(() => '---'), ...lines, total].map((cells) => `| ${cells.join(' | ')} |`);
  const wrong = rows.flatMap((row) => row.wrong.map((name) => `- ${row.tool}, ${row.exporter}, ${name}`));
  return [ABOUT, table.join('\n'), ...(wrong.length > 0 ? [wrong.join('\n')] : [])].join('\n\n');
}
