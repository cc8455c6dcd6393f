/** The search box of a served report. Its results come from the page's script. */
import { renderSection } from '../../../../base/html/components.js';
import { markup, type Markup } from '../../../../base/html/html.js';
import { formatCount } from '../../../../base/html/numbers.js';
import type { PageServer } from '../page/data.js';

/** Longest text of a search, in characters. No text tower reads more. */
export const MOST_CHARACTERS = 1000;

/** Writes the section; without models it says how to get them. */
export function renderSearch({ takesTexts, takesPhotos }: PageServer, rows: number): Markup {
  const among = `All ${formatCount(rows)} rows are compared, not only those on the map.`;
  const lead =
    takesTexts && takesPhotos
      ? `Say what to look for, or drop a photo on this page, or both. ${among}`
      : takesTexts
        ? `Say what to look for. ${among}`
        : takesPhotos
          ? `Drop a photo on this page. ${among}`
          : 'Serve this page with --model FILE, the model that made the dataset, to search by a photo or by words.';
  const form = takesTexts || takesPhotos ? renderForm(takesTexts, takesPhotos) : null;
  return renderSection('search', 'Search', markup`<p class="lead">${lead}</p>${form}`);
}

function renderForm(takesTexts: boolean, takesPhotos: boolean): Markup {
  const words = markup`<input id="words" type="search" maxlength="${MOST_CHARACTERS}" placeholder="a dog on grass" aria-label="What to look for" autocomplete="off">`;
  const photo = markup`<input id="photo" type="file" accept="image/*" hidden>
    <button type="button" id="choose-photo">Choose a photo</button>
    <span id="chosen" class="line"></span>`;
  return markup`<form id="search" class="tools line">
    ${takesTexts ? words : null}
    ${takesTexts ? markup`<button type="submit">Search</button>` : null}
    ${takesPhotos ? photo : null}
  </form>
  <p id="search-said" class="note" role="status"></p>
  <div id="hits" class="hits grid"></div>`;
}
