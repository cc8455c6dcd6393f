/** What lowering a model's precision did. */

/** What {@link lowerPrecision} did. */
export interface LoweringReport {
  readonly precision: 'float16';
  /** The float32 constants of the model. */
  readonly tensors: number;
  /** Those that nodes read in float16 now. */
  readonly converted: number;
  /** The nodes that compute in float16. */
  readonly nodes: number;
  /** The nodes that stay in float32, in execution order. Nodes without a reason, which only read from these, are left out. */
  readonly kept: readonly { readonly node: string; readonly operator: string; readonly reason: string }[];
  /** Constants with finite values above 65,504. They stay in float32, with the nodes that read them. */
  readonly overflows: readonly {
    readonly tensor: string;
    readonly count: number;
    readonly largest: number;
  }[];
  /** Converted constants with values below 2^-14: how many became 0, and how many keep fewer than 11 bits. */
  readonly underflows: readonly {
    readonly tensor: string;
    readonly zeros: number;
    readonly subnormals: number;
    readonly elements: number;
  }[];
  /** Size of the model with its weights, in bytes. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** The number of casts between float32 and float16. */
  readonly casts: number;
}
