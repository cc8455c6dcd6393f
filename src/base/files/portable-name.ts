/** Names of files that mean the same on every system. */

/** Names that Windows takes for devices, whatever their ending. */
const DEVICE = /^(?:con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$) *(?:[.:]|$)/i;

/** Whether Windows takes a name for that of a device. */
export function isDeviceName(name: string): boolean {
  return DEVICE.test(name);
}

/** Whether a name is that of an entry of its folder on every system. Windows drops dots and spaces at the end, so that `.. ` would be `..`. */
export function isPortableName(name: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return name !== '' && !/[. ]$|[\\/:*?"<>|\u0000-\u001f\u007f]/.test(name) && !DEVICE.test(name);
}

/** The first name that differs from an earlier one by case only, which some file systems ignore; undefined if all differ further. */
export function firstAlike(names: Iterable<string>): string | undefined {
  const seen = new Map<string, string>();
  for (const name of names) {
    const folded = name.normalize('NFC').toLowerCase();
    if ((seen.get(folded) ?? name) !== name) return name;
    seen.set(folded, name);
  }
  return undefined;
}
