/** How many names, loads and files of the test fixtures are right, wrong, refused, and refused though another tool answers. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { createFeatureExtractor, isTapirError, openModel, pruneModel, type OnnxModel } from 'onnx-tapir';
import { loadStateDict, readStateDict } from 'onnx-tapir/parameters';

/** A row of the table. */
export interface Count {
  readonly what: string;
  readonly right: number;
  readonly wrong: number;
  readonly refused: number;
  /** Refused, though another tool answers: what, by the folder and the error. */
  readonly lost: ReadonlyMap<string, readonly string[]>;
}

/** Collects the rows. */
class Counter {
  right = 0;
  wrong = 0;
  refused = 0;
  readonly lost: Map<string, string[]> = new Map();

  /** Adds a refusal of what another tool answers. */
  lose(code: string, file: string, what: string): void {
    const kind = `${file.split('/')[0]}, ${code}`;
    this.lost.set(kind, [...(this.lost.get(kind) ?? []), what]);
  }

  count(what: string): Count {
    const { right, wrong, refused, lost } = this;
    return { what, right, wrong, refused, lost };
  }
}

const codeOf = (error: unknown): string => {
  if (isTapirError(error)) return error.code;
  throw error;
};

/** Names whose values were found by value in torch, Keras, MXNet, Paddle; and those whose value the file does not have. */
interface Truth {
  readonly names: Readonly<Record<string, readonly string[]>>;
  readonly absent?: readonly string[];
}

/** Counts what lies in a folder of fixtures. */
export async function countFixtures(fixtures: string): Promise<Count[]> {
  return [
    await countNames(fixtures),
    await countLoads(join(fixtures, 'parameters/layers')),
    await countFiles(join(fixtures, 'graphs')),
  ];
}

async function countNames(fixtures: string): Promise<Count> {
  const found = new Counter();
  for (const [path, truth] of truthsIn(fixtures)) {
    const model = await openModel(path);
    for (const [name, tensors] of Object.entries(truth.names)) {
      const tensor = await tensorOf(model, name);
      if ('code' in tensor) found.lose(tensor.code, nameIn(fixtures, path), name);
      else if (tensors.includes(tensor.tensor)) found.right++;
      else found.wrong++;
    }
    for (const name of truth.absent ?? []) {
      if ('code' in (await tensorOf(model, name))) found.refused++;
      else found.wrong++;
    }
  }
  return found.count('names of modules');
}

function* truthsIn(fixtures: string): Generator<readonly [string, Truth]> {
  for (const folder of ['exporters', 'folding', 'quantized', 'names'])
    for (const file of readdirSync(join(fixtures, folder)).filter((name) => name.endsWith('.json'))) {
      const json = JSON.parse(readFileSync(join(fixtures, folder, file), 'utf8')) as unknown;
      const own = join(fixtures, folder, file.replace(/\.json$/, ''));
      if (Array.isArray(json)) {
        const entries = json as { readonly path: string; readonly tensors: readonly string[] }[];
        const told = entries.filter(({ tensors }) => tensors.length > 0);
        yield [
          `${own}.skeleton.onnx`,
          { names: Object.fromEntries(told.map((one) => [one.path, one.tensors])) },
        ];
      } else if ('names' in (json as object)) yield [`${own}.onnx`, json as Truth];
      else
        for (const [name, truth] of Object.entries(json as Record<string, Truth>))
          yield [join(fixtures, folder, `${name}.onnx`), truth];
    }
}

async function tensorOf(
  model: OnnxModel,
  name: string,
): Promise<{ readonly tensor: string } | { readonly code: string }> {
  try {
    const { plan } = await pruneModel(model, [name], { fillTypes: false });
    return { tensor: plan.resolved[0]!.tensor };
  } catch (error) {
    return { code: codeOf(error) };
  }
}

/** Other weights into networks that exporters folded; torch, which has the module, loads each. */
async function countLoads(folder: string): Promise<Count> {
  const found = new Counter();
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.onnx'))) {
    const name = file.split('.')[0]!;
    const facts = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Record<string, number[]>;
    const { dims, input, expected } = facts as Record<'dims' | 'input' | 'expected', number[]>;
    const state = await readStateDict(join(folder, `${name}.B.safetensors`));
    const reference = await readStateDict(join(folder, `${name}.A.safetensors`));
    try {
      const load = (given: object): ReturnType<typeof loadStateDict> =>
        loadStateDict(join(folder, file), state, given);
      // A reference tells what the file does not; some of these files need none, and have layers that it knows otherwise.
      const { model } = await load({}).catch(() => load({ reference }));
      const extractor = await createFeatureExtractor(model, ['y']);
      const data = Float32Array.from(input);
      const y = (await extractor.run({ dtype: 'float32', dims, data }))['y']!.data as Float32Array;
      await extractor.close();
      const largest = Math.max(...expected.map(Math.abs));
      const isRight = expected.every((value, i) => Math.abs(value - y[i]!) <= 1e-5 * largest);
      if (isRight) found.right++;
      else found.wrong++;
    } catch (error) {
      found.lose(codeOf(error), file, 'the load');
    }
  }
  return found.count('loads');
}

interface CorpusEntry {
  readonly file: string;
  readonly name: string;
  readonly ort?: { readonly loads: boolean };
}

/** Files that ONNX Runtime opens or refuses: their whole graph, cut to its own outputs. */
async function countFiles(folder: string): Promise<Count> {
  const found = new Counter();
  const entries = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as CorpusEntry[];
  for (const { file, name, ort } of entries) {
    if (!ort) continue;
    const opened = await opens(join(folder, file));
    if (opened === true && ort.loads) found.right++;
    else if (opened !== true && ort.loads) found.lose(opened as string, name, 'the file');
    else if (opened !== true) found.refused++;
    else found.wrong++;
  }
  return found.count('files');
}

async function opens(path: string): Promise<true | string> {
  try {
    const model = await openModel(path);
    const names = model.outputs.map(({ name }) => `tensor:${name}`);
    await (await createFeatureExtractor(model, names)).close();
    return true;
  } catch (error) {
    return codeOf(error);
  }
}

/** The first few, without those inside others. */
function shorten(names: readonly string[]): string {
  return names.length > SHOWN ? `${names.slice(0, SHOWN).join(', ')}, …` : names.join(', ');
}

const SHOWN = 12;

const nameIn = (folder: string, path: string): string =>
  relative(folder, path).replace(/(?:\.skeleton)?\.onnx$/, '');

/** As Markdown. */
export function describeCounts(counts: readonly Count[]): string {
  const head = ['', 'right', '**wrong**', 'refused', 'refused though another tool answers'];
  const rows = counts.map(({ what, right, wrong, refused, lost }) => [
    what,
    right,
    wrong,
    refused,
    [...lost.values()].flat().length,
  ]);
  const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  const reasons = counts.flatMap(({ what, lost }) =>
    [...lost].map(([kind, names]) => `- ${what}, ${kind}: ${names.length} (${shorten(names)})`),
  );
  return `${table.join('\n')}\n\n${reasons.join('\n')}`;
}
