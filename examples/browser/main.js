/** The page: photos that are dropped, and the nearest of each. */
import { cosine, decode, embed, openModel } from './embed.js';

const MOST_SHOWN = 4;
/** The photos of the folder examples/photos. */
const EXAMPLES = ['city', 'clouds', 'dunes', 'flower', 'forest', 'sea'].flatMap((kind) =>
  [0, 1, 2, 3].map((i) => `photos/${kind}/${kind}-${i}.jpg`),
);
const [drop, files, examples, status, list] = ['drop', 'files', 'examples', 'status', 'photos'].map((id) =>
  document.getElementById(id),
);
const photos = [];
let session;

try {
  session = await openModel('model.onnx');
  say('Ready.');
} catch (error) {
  say(`The model cannot be opened: ${error.message}`);
}

files.addEventListener('change', () => void add([...files.files]));
examples.addEventListener('click', () => void addExamples());
for (const type of ['dragover', 'dragleave', 'drop'])
  drop.addEventListener(type, (event) => {
    event.preventDefault();
    drop.classList.toggle('over', type === 'dragover');
    if (type === 'drop') void add([...event.dataTransfer.files]);
  });

async function addExamples() {
  examples.disabled = true;
  await add(await Promise.all(EXAMPLES.map(fetchPhoto)));
}

async function fetchPhoto(path) {
  const response = await fetch(path);
  return new File([await response.blob()], path.split('/').at(-1));
}

async function add(given) {
  const failed = [];
  for (const [i, file] of given.entries()) {
    say(`Photo ${i + 1} of ${given.length}: ${file.name}`);
    try {
      photos.push({
        name: file.name,
        url: URL.createObjectURL(file),
        vector: await embed(session, await decode(file)),
      });
    } catch (error) {
      failed.push(`${file.name} (${error.message})`);
    }
  }
  list.replaceChildren(...photos.map(rowOf));
  say(`${photos.length} photos.${failed.length > 0 ? ` Not read: ${failed.join(', ')}.` : ''}`);
}

function rowOf(photo) {
  const near = photos
    .filter((other) => other !== photo)
    .map((other) => ({ other, near: cosine(photo.vector, other.vector) }))
    .sort((a, b) => b.near - a.near)
    .slice(0, MOST_SHOWN);
  const row = document.createElement('li');
  row.append(
    figureOf(photo, photo.name),
    ...near.map((one) => figureOf(one.other, `${one.near.toFixed(3)} ${one.other.name}`)),
  );
  return row;
}

function figureOf({ name, url }, text) {
  const figure = document.createElement('figure');
  const image = Object.assign(document.createElement('img'), { src: url, alt: name });
  const caption = Object.assign(document.createElement('figcaption'), { textContent: text });
  figure.append(image, caption);
  return figure;
}

function say(text) {
  status.textContent = text;
}
