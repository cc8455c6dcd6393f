/** How far a long call is. */

/** What `onProgress` is called with. */
export interface Progress {
  /** How much is finished, counted in `unit`. */
  readonly done: number;
  /** How much there is; null while that is not known. */
  readonly total: number | null;
  readonly unit: 'images' | 'bytes' | 'pairs' | 'steps';
  /** What is done now, such as the step that begins or the file that arrives. */
  readonly what?: string;
}

/** Tells the steps of a call as they begin. */
export function countSteps(
  onProgress: ((progress: Progress) => void) | undefined,
  total: number | null = null,
): (what: string) => void {
  let done = 0;
  return (what) => onProgress?.({ done: done++, total, unit: 'steps', what });
}
