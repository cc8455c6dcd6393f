/** The search of a served page: words and a photo in, the nearest images out. */
import { acceptDrops } from '../../../../base/html/browser/accept-drops.js';
import { askServer } from '../../../../base/html/browser/ask-server.js';
import { byId, make } from '../../../../base/html/browser/elements.js';
import type { PageHit, PageHits, PageServer } from './data.js';
import { makePicture, shortName } from './tiles.js';

/** What the search needs of the rest of the page. */
export interface SearchPlace {
  /** Key of the output whose vectors are compared. */
  readonly output: () => string;
  /** Shows the image of a row on the map; undefined if the map does not have it. */
  readonly showerOf: (row: number) => (() => void) | undefined;
}

/** Makes the search work. */
export function startSearch({ key, takesTexts, takesPhotos }: PageServer, place: SearchPlace): void {
  if (!takesTexts && !takesPhotos) return;
  const words = takesTexts ? (byId('words') as HTMLInputElement) : undefined;
  const said = byId('search-said');
  let photo: File | undefined;
  let latest = 0;

  const search = async (): Promise<void> => {
    const text = words?.value.trim() ?? '';
    const turn = ++latest;
    if (text === '' && !photo) {
      said.textContent = takesPhotos ? 'Say something, or choose a photo.' : 'Say something.';
      byId('hits').replaceChildren();
      return;
    }
    said.textContent = 'Searching …';
    const fields = new URLSearchParams({ output: place.output(), text }).toString();
    const outcome = await askServer<PageHits>(key, `search?${fields}`, photo);
    if (turn !== latest) return;
    said.classList.toggle('bad', 'problem' in outcome);
    if ('problem' in outcome) {
      said.textContent = outcome.problem;
      byId('hits').replaceChildren();
      return;
    }
    const { hits, photo: picture } = outcome.value;
    if (photo) showPhoto(photo.name, picture);
    said.textContent = `${hits.length} nearest, by cosine`;
    byId('hits').replaceChildren(...hits.map((hit) => makeHit(hit, place.showerOf(hit.row))));
  };
  const setPhoto = (file: File | undefined): void => {
    photo = file;
    if (file) showPhoto(file.name, null);
    else byId('chosen').replaceChildren();
    void search();
  };
  const showPhoto = (name: string, picture: string | null): void => {
    const remove = make(
      'button',
      '',
      { 'aria-label': `Remove the photo ${name}`, click: () => setPhoto(undefined) },
      'Remove',
    );
    byId('chosen').replaceChildren(
      ...(picture === null ? [] : [makePicture(picture)]),
      make('bdi', '', name),
      remove,
    );
  };

  byId('search').addEventListener('submit', (event) => {
    event.preventDefault();
    void search();
  });
  if (!takesPhotos) return;
  const field = byId('photo') as HTMLInputElement;
  byId('choose-photo').addEventListener('click', () => field.click());
  field.addEventListener('change', () => {
    if (field.files?.[0]) setPhoto(field.files[0]);
    field.value = '';
  });
  const section = byId('search-section');
  acceptDrops(section, ([file]) => {
    if (!file) return;
    section.scrollIntoView({ block: 'nearest' });
    setPhoto(file);
  });
}

/** A result. It is a button if the map has the image. */
function makeHit({ name, row, cosine, picture }: PageHit, click: (() => void) | undefined): HTMLElement {
  const score = cosine.toFixed(3).replace('-', '−');
  const parts = [
    { title: `${name}, row ${row}` },
    makePicture(picture),
    make('span', 'tiny', score),
    make('bdi', 'tiny clip', shortName(name)),
  ];
  return click ? make('button', 'tile', { click }, parts) : make('div', 'tile', parts);
}
