/** How much the tests try: a part in every check, all before a release (`TAPIR_RELEASE=1 npm run test:all`). */

/** Whether all is tried. */
export const isRelease = process.env['TAPIR_RELEASE'] !== undefined;

/** How often something is tried with other numbers, or killed again. */
export const rounds = (inCheck: number, beforeRelease: number): number =>
  isRelease ? beforeRelease : inCheck;

/** Of cases that differ in little, one of `among` in a check. */
export const someOf = <Case>(cases: readonly Case[], among: number): readonly Case[] =>
  isRelease ? cases : cases.filter((_, i) => i % among === 0);
