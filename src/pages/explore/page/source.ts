/** Where answers come from: the server of a served page, or the record that a written page carries. */
import { askServer, outcomeOf, type Outcome } from '../../../html/browser/ask-server.js';
import type { PageData, PagePhoto } from './data.js';

/** Answers questions. A question that fails gives `{ problem }`. */
export interface Source {
  readonly isServed: boolean;
  ask<Value>(name: string, fields?: Readonly<Record<string, string>>): Promise<Outcome<Value>>;
  /** Whether an answer is there without a wait. */
  has(name: string, fields: Readonly<Record<string, string>>): boolean;
  cut(names: readonly string[]): Promise<Outcome<unknown>>;
  addPhoto(file: File): Promise<Outcome<PagePhoto>>;
  save(
    names: readonly string[],
    file: string,
  ): Promise<Outcome<{ readonly path: string; readonly bytes: number }>>;
}

/** The source of a page. */
export function sourceOf({ key, recorded }: PageData): Source {
  return key === null ? recordedSource(recorded) : servedSource(key);
}

function questionOf(name: string, fields: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(fields).toString();
  return query === '' ? name : `${name}?${query}`;
}

function recordedSource(recorded: PageData['recorded']): Source {
  const served = { problem: 'This page is a file. “tapir explore MODEL” serves one that computes.' };
  return {
    isServed: false,
    ask: async (name, fields = {}) => {
      const question = questionOf(name, fields);
      return question in recorded ? outcomeOf(recorded[question]) : served;
    },
    has: (name, fields) => questionOf(name, fields) in recorded,
    cut: async () => served,
    addPhoto: async () => served,
    save: async () => served,
  };
}

function servedSource(key: string): Source {
  const known = new Map<string, Promise<Outcome<unknown>>>();
  const ask = async (question: string): Promise<Outcome<unknown>> => {
    let answer = known.get(question);
    if (!answer) known.set(question, (answer = askServer(key, question)));
    const outcome = await answer;
    if ('problem' in outcome) known.delete(question);
    return outcome;
  };
  return {
    isServed: true,
    ask: <Value>(name: string, fields = {}) => ask(questionOf(name, fields)) as Promise<Outcome<Value>>,
    has: () => true,
    cut: (names) => ask(`cut?${new URLSearchParams(names.map((name) => ['node', name])).toString()}`),
    addPhoto: (file) => askServer(key, `photo?${new URLSearchParams({ name: file.name }).toString()}`, file),
    save: (names, file) => askServer(key, 'save', JSON.stringify({ names, file })),
  };
}
