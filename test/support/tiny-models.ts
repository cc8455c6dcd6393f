/** Models small enough to write down: graph `g` of IR version 8 and opset 13, for float32 tensors of dims [1, 1, 1, 1]. */

const NEG =
  '08083a4a0a0b0a017812017922034e65671201675a1b0a017812160a14080112100a0208010a0208010a0208010a020801621b0a017912160a14080112100a0208010a0208010a0208010a0208014202100d';

/** y = -x. */
export const negModel = (): Uint8Array => Uint8Array.from(Buffer.from(NEG, 'hex'));

/** The same with an operator that does not exist. */
export const unknownModel = (): Uint8Array =>
  Uint8Array.from(Buffer.from(NEG.replace('4e6567', '586567'), 'hex'));
