/** Returns the version of the C library, such as `2.36`; null if it is not glibc (musl, macOS, Windows). */
export function readGlibcVersion(): string | null {
  // @types/node does not know the property.
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
  const before = report.excludeNetwork;
  // Looking up the names of network addresses can take long.
  report.excludeNetwork = true;
  try {
    const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
    return header?.glibcVersionRuntime ?? null;
  } finally {
    report.excludeNetwork = before;
  }
}
