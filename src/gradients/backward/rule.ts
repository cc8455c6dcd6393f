/** What a rule is: how the gradients of an operator's inputs follow from those of its outputs. */
import type { Backward } from './backward.js';

/** Computes the gradient of an input; called only if it is needed. Gives the tensor that holds it, or undefined where it is zero. */
export type InputGradient = () => string | undefined;

/** The gradients of a node's inputs, by position. An input without an entry cannot be differentiated. */
export type Rule = (node: Backward) => readonly (InputGradient | undefined)[];

/** Rules by operator. */
export type Rules = Readonly<Record<string, Rule>>;
