/** The progress of `tapir train`, on standard error. */
import { shown } from '../../base/printable.js';
import { formatShare } from '../../html/numbers.js';
import type { EpochRecord, TrainEvent } from '../../train/folder/training-records.js';
import type { Terminal } from './terminal.js';

/** Shows what happens. */
export interface TrainView {
  show(event: TrainEvent): void;
  /** Ends the line of progress. Idempotent. */
  end(): void;
}

/** Creates a view: a line per epoch and, on a terminal, one that is rewritten at each step. */
export function createTrainView(terminal: Terminal, epochs: number): TrainView {
  let isOpen = false;
  const clear = (): void => {
    if (isOpen) terminal.rewrite('');
    isOpen = false;
  };
  return {
    show(event) {
      if (event.kind === 'step') {
        if (!terminal.isTerminal) return;
        const { epoch, step, steps, loss, imagesPerSecond } = event;
        terminal.rewrite(
          `epoch ${epoch}/${epochs}, step ${step}/${steps}: loss ${loss.toFixed(4)}, ${imagesPerSecond.toFixed(1)} images/s`,
        );
        isOpen = true;
        return;
      }
      clear();
      if (event.kind === 'epoch') terminal.err(`${describeEpoch(event.record, epochs, event.isBest)}\n`);
      else terminal.err(`${event.kind === 'warning' ? 'warning: ' : ''}${shown(event.text)}\n`);
    },
    end: clear,
  };
}

/** `epoch 3/10: loss 0.4312, accuracy 88.9 %; held out: loss 0.5120, accuracy 83.3 % (best); 12.3 images/s`. */
function describeEpoch({ epoch, training, heldOut, seconds }: EpochRecord, epochs: number, isBest: boolean) {
  const score = ({ loss, accuracy }: EpochRecord['training']): string =>
    `loss ${loss.toFixed(4)}, accuracy ${formatShare(accuracy)}`;
  const measured = heldOut ? `; held out: ${score(heldOut)}${isBest ? ' (best)' : ''}` : '';
  return `epoch ${epoch}/${epochs}: ${score(training)}${measured}; ${(training.rows / seconds).toFixed(1)} images/s`;
}
