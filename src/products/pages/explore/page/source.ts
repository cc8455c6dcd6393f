/** Where answers come from: the server of a served page, or the record that a written page carries. */
import { askServer, outcomeOf, type Outcome } from '../../../../base/html/browser/ask-server.js';
import type { PageCut, PageData, PagePhoto } from './data.js';
import type { ModelGraph } from './graph.js';

/** Answers questions, such as `features?node=layer4&photo=0`. What fails gives `{ problem }`; no answer rejects. */
export interface Source {
  readonly isServed: boolean;
  ask<Value>(question: string): Promise<Outcome<Value>>;
  /** Whether there is an answer. */
  has(question: string): boolean;
  cut(names: readonly string[]): Promise<Outcome<PageCut>>;
  /** Gives the photo, or tiles of the picture. */
  addPhoto(file: File): Promise<Outcome<readonly PagePhoto[]>>;
  save(
    names: readonly string[],
    file: string,
  ): Promise<Outcome<{ readonly path: string; readonly bytes: number }>>;
}

/** What the cards of a page share. */
export interface Page {
  readonly graph: ModelGraph;
  readonly source: Source;
  readonly data: PageData;
}

/** A question as text. */
export function writeQuestion(name: string, fields: Readonly<Record<string, string>>): string {
  return `${name}?${new URLSearchParams(fields).toString()}`;
}

/** The source of a page. */
export function sourceOf({ key, recorded }: PageData): Source {
  return key === null ? recordedSource(recorded) : servedSource(key);
}

function recordedSource(recorded: PageData['recorded']): Source {
  const served = { problem: 'This page is a file. “tapir explore MODEL” serves one that computes.' };
  return {
    isServed: false,
    ask: async (question) => (question in recorded ? outcomeOf(recorded[question]) : served),
    has: (question) => question in recorded,
    cut: async () => served,
    addPhoto: async () => served,
    save: async () => served,
  };
}

function servedSource(key: string): Source {
  const known = new Map<string, Promise<Outcome<unknown>>>();
  const ask = async <Value>(question: string): Promise<Outcome<Value>> => {
    const answer = known.get(question) ?? askServer(key, question);
    known.set(question, answer);
    const outcome = await answer;
    if ('problem' in outcome) known.delete(question);
    return outcome as Outcome<Value>;
  };
  return {
    isServed: true,
    ask,
    has: () => true,
    cut: (names) =>
      ask(`cut?${new URLSearchParams(names.map((name): [string, string] => ['node', name])).toString()}`),
    addPhoto: (file) => askServer(key, `photo?${new URLSearchParams({ name: file.name }).toString()}`, file),
    save: (names, file) => askServer(key, 'save', JSON.stringify({ names, file })),
  };
}
