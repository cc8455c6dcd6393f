/** Rounds to a whole number, halves to the even one: as Python's round() and ONNX's QuantizeLinear do. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  return value - floor === 0.5 && floor % 2 === 0 ? floor : Math.round(value);
}
