/**
 * `npm run conformance -- processors`: finds the image processors of transformers that have the bits of a class that the readers know, and
 * writes src/photos/images/configs/like-classes.ts and the digests that its test compares. With PYTHON, as conformance/README.md says.
 *
 * Every class is tried with the pictures and configurations of processors.py against each known class. A field whose values make a
 * difference must keep the value with which there is none; a class that differs in a way that no field explains is left out.
 */
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROCESSOR_CLASSES, type LikeClass } from '../src/photos/images/configs/hugging-face-classes.js';
import { HARMLESS } from '../src/photos/images/configs/hugging-face.js';
import { transformFromConfig } from '../src/photos/images/configs/transform-from-config.js';
import { loadImage } from '../src/photos/feeds/load-image.js';
import type { Backend } from '../src/photos/images/configs/config-fields.js';

type Fields = Readonly<Record<string, unknown>>;
/** By picture: type, dims and SHA-256 of each tensor; or the library's error. */
type Tensors = Readonly<
  Record<string, string | Readonly<Record<string, readonly [string, readonly number[], string]>>>
>;
interface Case {
  readonly given: Fields;
  /** As the processor saves itself. The first case is that of the defaults. */
  readonly fields?: Fields;
  readonly tensors?: Tensors;
}
interface Tried {
  readonly fields?: Fields;
  readonly cases?: readonly Case[];
}
interface Found {
  readonly versions: Readonly<Record<'transformers' | 'Pillow', string>>;
  readonly tested: readonly string[];
  readonly classes: Readonly<
    Record<
      string,
      {
        readonly models: readonly string[];
        readonly backends: Partial<Record<Backend, Tried>>;
      }
    >
  >;
}
/** How many pictures came out so. */
type Outcome = Record<'equal' | 'different', number>;

/** What the readers read, or know to be harmless. */
const READ: ReadonlySet<string> = new Set([
  'do_resize', 'size', 'default_to_square', 'crop_size', 'resample', 'do_rescale', 'rescale_factor', 'do_normalize', 'image_mean', 'image_std', 'do_pad', 'pad_size',
  'do_center_crop', 'patch_size', 'merge_size', 'temporal_patch_size', 'min_pixels', 'max_pixels', 'max_num_patches', 'ensure_multiple_of', 'keep_aspect_ratio', 'crop_pct',
]); // prettier-ignore
const isOwn = (field: string): boolean => !READ.has(field) && !HARMLESS.includes(field);

const project = fileURLToPath(new URL('..', import.meta.url));
const pictures = join(project, 'test/fixtures/preprocess/images');

/** Asks transformers, and writes both files. */
export async function findLikeClasses(python: string, folder: string): Promise<void> {
  const script = join(project, 'conformance/processors.py');
  const ask = (at: string, ...names: string[]): Found => {
    execFileSync(python, [script, join(folder, at), ...names], { stdio: 'inherit' });
    return readFound(join(folder, at));
  };
  const all = ask('defaults');
  const matcher = new Matcher(all, join(folder, 'defaults'));
  const hopeful: string[] = [];
  for (const name of Object.keys(all.classes))
    if (!Object.hasOwn(PROCESSOR_CLASSES, name) && (await matcher.isHopeful(name))) hopeful.push(name);
  await writeLikeClasses(ask('odd', hopeful.join()), join(folder, 'odd'));
}

export function readFound(folder: string): Found {
  return JSON.parse(readFileSync(join(folder, 'processors.json'), 'utf8')) as Found;
}

/** Writes what a run of processors.py has left in a folder. */
export async function writeLikeClasses(found: Found, folder: string): Promise<void> {
  const matcher = new Matcher(found, folder);
  const rows: Record<string, LikeClass> = {};
  const digests: Record<string, unknown> = {};
  for (const [name, { backends }] of Object.entries(found.classes)) {
    const like = await matcher.best(name);
    process.stderr.write(`${name}: ${like ? JSON.stringify({ ...like, fields: undefined }) : 'none'}\n`);
    if (!like) continue;
    rows[name] = like;
    digests[name] = Object.fromEntries(
      Object.entries(backends).flatMap(([backend, { cases = [] }]) => {
        const shown = baseOf(cases) ?? cases[0];
        return shown?.tensors
          ? [[backend, { given: shown.given, pictures: pick(shown.tensors, found.tested) }]]
          : [];
      }),
    );
  }
  const release = found.versions.transformers;
  writeFileSync(join(project, 'src/photos/images/configs/like-classes.ts'), sourceOf(rows, release));
  const text = JSON.stringify({ versions: found.versions, classes: digests }, null, 1);
  writeFileSync(join(project, 'test/fixtures/transforms/like-classes.json'), `${text}\n`);
}

function pick(tensors: Tensors, names: readonly string[]): Tensors {
  return Object.fromEntries(names.map((name) => [name, tensors[name]!]));
}

/** The case in which what only this class does is switched off; undefined if there is nothing to switch. */
function baseOf(cases: readonly Case[]): Case | undefined {
  return cases.find(({ given, tensors }) => {
    const fields = Object.entries(given);
    return (
      tensors &&
      fields.length > 0 &&
      fields.every(([field, value]) => (field === 'do_pad' || isOwn(field)) && value === false)
    );
  });
}

function backendsOf({ classes }: Found, name: string): readonly (readonly [Backend, Tried])[] {
  return Object.entries(classes[name]!.backends) as [Backend, Tried][];
}

/** Compares the classes of a run with known ones. */
class Matcher {
  readonly #found: Found;
  readonly #folder: string;
  readonly #digests = new Map<string, Promise<string>>();

  constructor(found: Found, folder: string) {
    this.#found = found;
    this.#folder = folder;
  }

  /** The known class that a class is like, and what its fields must be; the one that leaves most of them free. */
  async best(name: string): Promise<LikeClass | undefined> {
    let best: LikeClass | undefined;
    let most = 0;
    for (const known of Object.keys(PROCESSOR_CLASSES)) {
      const found = await this.#like(name, known);
      if (found && found.equal > most) [best, most] = [found.row, found.equal];
    }
    return best;
  }

  /** Whether the defaults of a class give some picture the bits of a known class. */
  async isHopeful(name: string): Promise<boolean> {
    for (const [backend, { fields, cases = [] }] of backendsOf(this.#found, name))
      for (const like of Object.keys(PROCESSOR_CLASSES)) {
        const { tensors } = cases[0] ?? {};
        if (fields && tensors && (await this.#compare(tensors, backend, [fields], like)).equal > 0)
          return true;
      }
    return false;
  }

  async #like(name: string, like: string): Promise<{ row: LikeClass; equal: number } | undefined> {
    const { backends, models } = this.#found.classes[name]!;
    const seen: { outcome: Outcome; changed: readonly string[] }[] = [];
    let defaults: Fields | undefined;
    let base: Fields | undefined;
    for (const [backend, { fields, cases = [] }] of backendsOf(this.#found, name)) {
      if (!fields) continue;
      defaults ??= fields;
      base ??= baseOf(cases)?.fields ?? fields;
      for (const one of cases) {
        if (!one.tensors) continue;
        const own = one.fields ?? fields;
        const outcome = await this.#compare(one.tensors, backend, [{ ...fields, ...one.given }, own], like);
        const names = Object.keys(own).filter((field) => !isDeepStrictEqual(own[field], base![field]));
        seen.push({ outcome, changed: names });
        // Nothing else can be right.
        if (outcome.different > 0 && names.length === 0) return undefined;
      }
    }
    if (!defaults || !base) return undefined;
    const only = new Set<string>();
    const isExplained = ({ changed }: { changed: readonly string[] }): boolean =>
      changed.some((field) => only.has(field));
    const wrong = seen
      .filter(({ outcome }) => outcome.different > 0)
      .toSorted((a, b) => a.changed.length - b.changed.length);
    for (const one of wrong) if (!isExplained(one)) for (const field of one.changed) only.add(field);
    const equal = seen.filter((one) => one.outcome.equal > 0 && !isExplained(one));
    if (equal.length === 0) return undefined;
    const tried = new Set(equal.flatMap(({ changed }) => changed));
    const free = Object.keys(defaults).filter(
      (field) => isOwn(field) && tried.has(field) && !only.has(field),
    );
    for (const field of Object.keys(defaults)) if (isOwn(field) && !free.includes(field)) only.add(field);
    const needs = Object.fromEntries([...only].map((field) => [field, base![field] ?? null]));
    return {
      row: {
        like,
        models,
        fields: statedOf(defaults),
        ...(!('pil' in backends) && { isTorchOnly: true }),
        ...(free.length > 0 && { free }),
        ...(only.size > 0 && { only: needs }),
      },
      equal: equal.length,
    };
  }

  async #compare(
    tensors: Tensors,
    backend: Backend,
    spellings: readonly Fields[],
    like: string,
  ): Promise<Outcome> {
    const outcome = { equal: 0, different: 0 };
    for (const fields of spellings) {
      const known = Object.fromEntries(Object.entries(fields).filter(([field]) => READ.has(field)));
      let transform;
      try {
        transform = transformFromConfig({ ...known, image_processor_type: like }, { backend });
      } catch {
        continue;
      }
      if (backend === 'pil' && Number.parseInt(this.#found.versions.Pillow) >= 13)
        transform = transform.with({ resampler: 'pillow-13' });
      for (const [picture, expected] of Object.entries(tensors)) {
        if (typeof expected === 'string') continue;
        const key = JSON.stringify([transform.options, picture]);
        if (!this.#digests.has(key)) this.#digests.set(key, this.#digest(picture, transform));
        const ours = JSON.parse(await this.#digests.get(key)!) as Record<string, unknown> | null;
        if (ours === null) continue;
        const isEqual = Object.entries(ours).every(([tensor, value]) =>
          isDeepStrictEqual(value, expected[tensor]),
        );
        outcome[isEqual ? 'equal' : 'different']++;
      }
    }
    return outcome;
  }

  async #digest(picture: string, transform: Parameters<typeof loadImage>[1]): Promise<string> {
    const path = join(this.#found.tested.includes(picture) ? pictures : this.#folder, picture);
    try {
      return JSON.stringify(describe((await loadImage(path, transform)).toTensors()));
    } catch {
      return 'null';
    }
  }
}

function describe(
  tensors: Readonly<Record<string, { dtype: string; dims: readonly number[]; data: unknown }>>,
): unknown {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, dims, data }]) => {
      const bytes = data as Float32Array;
      const hash = createHash('sha256').update(
        new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength),
      );
      return [name, [dtype, dims, hash.digest('hex')]];
    }),
  );
}

/** What the readers take where a file is silent. */
const SILENT: Fields = { do_resize: true, do_rescale: true, rescale_factor: 1 / 255 };

/** The fields that are read, and what only this class has. */
function statedOf(fields: Fields): Fields {
  const isStated = ([field, value]: readonly [string, unknown]): boolean =>
    value !== null && (READ.has(field) || isOwn(field)) && SILENT[field] !== value;
  return Object.fromEntries(Object.entries(fields).filter(isStated));
}

function sourceOf(rows: Readonly<Record<string, LikeClass>>, release: string): string {
  const lines = Object.entries(rows).map(([name, row]) => `  ${name}: ${textOf(row)},`);
  return `/**
 * The image processors of transformers (${release}) that have the bits of a known class. Written by \`npm run conformance -- processors\`, which
 * tries them; a test compares their digests. Do not edit.
 */
import type { LikeClass } from './hugging-face-classes.js';

/** By the class's name without \`ImageProcessor\`. */
export const LIKE_CLASSES: Readonly<Record<string, LikeClass>> = {
${lines.join('\n')}
}; // prettier-ignore
`;
}

/** As TypeScript. */
function textOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(textOf).join(', ')}]`;
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value !== 'object' || value === null) return String(value);
  return `{ ${Object.entries(value)
    .map(([name, inner]) => `${name}: ${textOf(inner)}`)
    .join(', ')} }`;
}
