/** Curves over epochs, as a picture that is also told in words. */
import { markup, type Markup } from '../../html/html.js';

/** The values of one curve, epoch by epoch. */
export interface Curve {
  readonly name: 'training' | 'held-out';
  readonly values: readonly number[];
}

const WIDTH = 420;
const HEIGHT = 180;
const LINES = 4;

/**
 * Draws curves from 0 to a highest value.
 *
 * @param format - Writes a value as text.
 */
export function renderCurve(
  title: string,
  curves: readonly Curve[],
  highest: number,
  format: (value: number) => string,
): Markup {
  const top = highest > 0 ? highest : 1;
  const drawn = curves.filter(({ values }) => values.length > 0);
  const epochs = Math.max(...drawn.map(({ values }) => values.length));
  const grid = Array.from({ length: LINES + 1 }, (_, i) => {
    const y = (HEIGHT * i) / LINES;
    return markup`<line class="grid-line" x1="0" x2="${WIDTH}" y1="${y}" y2="${y}"/><text x="${WIDTH + 6}" y="${y + 4}">${format(top * (1 - i / LINES))}</text>`;
  });
  const lines = drawn.map((curve) => renderLine(curve, epochs, top, format));
  const words = drawn.map(
    ({ name, values }) => `${name} from ${format(values[0]!)} to ${format(values.at(-1)!)}`,
  );
  const label = `${title} over ${epochs} epochs: ${words.join('; ')}`;
  return markup`<figure class="curve">
    <figcaption><h3>${title}</h3></figcaption>
    <svg viewBox="-6 -10 ${WIDTH + 60} ${HEIGHT + 36}" role="img" aria-label="${label}">${grid}${lines}
    <text x="0" y="${HEIGHT + 20}">epoch 1</text><text x="${WIDTH}" y="${HEIGHT + 20}" text-anchor="end">${epochs}</text></svg>
    <p class="key note">${drawn.map(({ name }) => markup`<span class="${name}">${name === 'training' ? '┄' : '━'} ${name}</span>`)}</p>
  </figure>`;
}

function renderLine(
  { name, values }: Curve,
  epochs: number,
  top: number,
  format: (value: number) => string,
): Markup {
  const places = values.map((value, i) => {
    const x = epochs === 1 ? WIDTH / 2 : (WIDTH * i) / (epochs - 1);
    return { x: x.toFixed(1), y: (HEIGHT * (1 - value / top)).toFixed(1), value };
  });
  const points = places.map(({ x, y }) => `${x},${y}`).join(' ');
  const dots = places.map(
    ({ x, y, value }, i) =>
      markup`<circle cx="${x}" cy="${y}" r="2.5"><title>epoch ${i + 1}: ${format(value)}</title></circle>`,
  );
  return markup`<g class="${name}"><polyline points="${points}"/>${dots}</g>`;
}
