/** How far a long call is. */

/** What `onProgress` is called with. */
export interface Progress {
  /** How much is finished, counted in `unit`. */
  readonly done: number;
  /** How much there is; null while that is not known. */
  readonly total: number | null;
  readonly unit: 'images' | 'bytes' | 'pairs' | 'rows' | 'rounds' | 'nodes' | 'files' | 'steps';
  /** What is done now, such as the step that begins or the file that arrives. */
  readonly what?: string;
}

/** Tells how much of a step is done, or of a part of it by its name: a step of passes whose number is open tells each pass. */
export type Tell = (done: number, part?: string) => void;

/** Begins a step; the function that it gives tells how much of the step is done. */
export type BeginStep = (what: string, unit?: Progress['unit'], total?: number) => Tell;

/** Tells the steps of a call as they begin, and within a step how much of it is done. */
export function countSteps(
  onProgress: ((progress: Progress) => void) | undefined,
  total: number | null = null,
): BeginStep {
  let steps = 0;
  return (what, unit = 'steps', parts = 0) => {
    onProgress?.({ done: steps++, total, unit: 'steps', what });
    return (done, part) =>
      onProgress?.({ done, total: parts, unit, what: part === undefined ? what : `${what}, ${part}` });
  };
}
