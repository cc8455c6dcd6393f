/** What a folder holds, for searches of places that may not be there. */
import { readdirSync } from 'node:fs';

/** The names in a folder, sorted; empty if it cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}
