/** The questions of a page as text: `features?node=layer4&photo=0`. A served page sends them; a written page has their answers. */
import { problemOf } from '../../../base/html/serve-page.js';
import type { Explorer } from './explorer.js';

/** Answers a question, with `{ problem }` where that fails; undefined for a text that is no question. */
export async function answerQuestion(explorer: Explorer, question: string): Promise<unknown> {
  const { pathname, searchParams } = new URL(question, 'page:/');
  const [node, photo] = [searchParams.get('node') ?? '', searchParams.get('photo') ?? ''];
  const answers: Readonly<Record<string, () => Promise<unknown>>> = {
    measure: () => explorer.measure(searchParams.has('times')),
    cut: () => explorer.cut(searchParams.getAll('node')),
    detail: () => explorer.detail(Number(node)),
    features: () => explorer.features(node, photo),
    attention: () => explorer.attention(node, photo),
    classes: () => explorer.classes(photo),
    heat: () => explorer.heat(node, photo, readTarget(searchParams.get('class'))),
  };
  const name = pathname.replace(/^\//, '');
  if (!Object.hasOwn(answers, name)) return undefined;
  try {
    return await answers[name]!();
  } catch (error) {
    return problemOf(error);
  }
}

function readTarget(given: string | null): number | string | undefined {
  if (given === null || given === '') return undefined;
  return /^\d+$/.test(given) ? Number(given) : given;
}
