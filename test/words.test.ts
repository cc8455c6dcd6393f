/** Phrases that readers stumbled over stay out of guides, help and messages. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

/** What is barred, and a sentence that has it. Inversions and riddles first, then words that have a plainer one. */
const BARRED: readonly (readonly [RegExp, string])[] = [
  [/\bwhoever\b/i, 'It is told to whoever started it.'],
  [/\b(?:is|are|be) told\b/i, 'The caller is told.'],
  [/\bnot (?:listed|read|tried|counted) (?:is|are)\b/i, 'Not listed are lone numbers.'],
  [/\bis a yes\b/i, '`--yes` is a yes.'],
  [/\bnothing(?: here)? tells\b/i, 'unproven that nothing here tells'],
  [/\bsteps? back\b/i, 'lets all others step back'],
  [/\bgoes on\b/i, 'The same command goes on.'],
  [/\bcannot go on\b/i, 'the training cannot go on'],
  [/\bway back\b/i, 'what the way back needs'],
  [/\bhave come to\b|\bhas come to\b/i, 'they live until it has come to them'],
  [/\bin that very\b/i, 'in that very file'],
  [/\b(?:is|are) (?:let|taken for)\b/i, 'One that is starting is let finish.'],
  [/\bbut for\b/i, 'The disk is read-only but for /tmp.'],
  [/\bmuch alike\b/i, 'photos that are much alike'],
  [/\bno device can hold whole\b/i, 'For what no device can hold whole.'],
  [/\banswers (?:silently|right)\b/i, 'tapir answers right or refuses'],
  [/\blonger from the start\b/i, 'one that was longer from the start'],
  [/\banswer with yes\b/i, 'answer with yes, or add --yes'],
  [/\btap the intermediate\b/i, 'Tap the intermediate representation'],
  [/\bfor long:/i, 'Memory does not grow for long: V8 …'],
];

const files = execFileSync(
  'git',
  ['ls-files', '*.md', 'integrations', 'src/*.ts', ':!docs/decisions', ':!docs/api', ':!CHANGELOG.md'],
  { cwd: projectPath('.'), encoding: 'utf8' },
)
  .trim()
  .split('\n')
  .filter((file) => /\.(?:md|ts)$/.test(file));

/** The prose of a page without code, or the strings of a module without comments: its messages and help. */
function textsOf(file: string, text: string): string[] {
  if (file.endsWith('.md')) return [text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '``')];
  const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  return [...code.matchAll(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g)].map(
    ([string]) => string,
  );
}

function barredIn(text: string): string[] {
  return BARRED.flatMap(([pattern]) => pattern.exec(text)?.[0] ?? []);
}

describe('words', () => {
  it('are plain in guides, help and messages', () => {
    expect(files.length).toBeGreaterThan(500);
    const found = files.flatMap((file) =>
      textsOf(file, readFileSync(projectPath(file), 'utf8')).flatMap((text) =>
        barredIn(text).map((phrase) => `${file}: ${phrase}`),
      ),
    );
    expect(found).toEqual([]);
  });

  it.each(BARRED)('%s is found', (pattern, sentence) => {
    expect(pattern.test(sentence)).toBe(true);
    expect(
      textsOf('a.ts', `// ${sentence}\nthrow new Error(\`${sentence.replaceAll('`', '')}\`);`),
    ).toHaveLength(1);
  });
});
