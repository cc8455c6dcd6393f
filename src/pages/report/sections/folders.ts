/** Folders of the images, which colour the points of the map. */

/** Names of folders, and for each path the place of its folder among them. */
export interface FolderGroups {
  readonly names: readonly string[];
  readonly places: readonly number[];
}

/** As many names as there are distinct colours. With more folders, the last name stands for the rest. */
const MAX_NAMES = 8;
const REST = 'other';
const TOP = '(top)';

/** Groups paths by the first folder in which they differ. The largest groups keep their names, the rest become one group. */
export function groupByFolder(paths: readonly (string | null)[]): FolderGroups {
  const folders = paths.map((path) => (path ?? '').split('/').slice(0, -1));
  const shared = sharedDepth(folders);
  return groupNames(folders.map((folder) => folder[shared] ?? TOP));
}

/** Groups names: the most frequent ones stay, the rest become one group. */
export function groupNames(names: readonly string[]): FolderGroups {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const kept = [...counts.keys()]
    .toSorted((a, b) => counts.get(b)! - counts.get(a)! || (a < b ? -1 : 1))
    .slice(0, counts.size > MAX_NAMES ? MAX_NAMES - 1 : MAX_NAMES)
    .toSorted((a, b) => (a < b ? -1 : 1));
  const all = counts.size > kept.length ? [...kept, REST] : kept;
  const placeOf = new Map(kept.map((name, place) => [name, place]));
  return { names: all, places: names.map((name) => placeOf.get(name) ?? kept.length) };
}

/** The number of leading folders that all paths share. */
function sharedDepth(folders: readonly (readonly string[])[]): number {
  const [first = []] = folders;
  let depth = first.length;
  for (const folder of folders) {
    let same = 0;
    while (same < depth && folder[same] === first[same]) same++;
    depth = same;
  }
  return depth;
}
