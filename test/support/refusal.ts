/** What a call throws, as `CODE: message`. */
export function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return `${code}: ${message}`;
  }
  return 'nothing';
}
