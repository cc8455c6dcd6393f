/** Files that are not read, by their first bytes and by their extensions, and what to do with them. */
import { FORMATS_SHOWN } from './image-format.js';
import { textOf } from '../pixels/data-view.js';

const ADVICE = {
  image: 'to embed them, convert them to PNG or JPEG',
  video:
    'to embed frames of videos, write them with ffmpeg (ffmpeg -i VIDEO.mp4 frames/%06d.jpg) and give that folder, for models of clips with option "clips"',
  pages: 'to embed pages, write them as images (pdftoppm -png FILE.pdf pages/page) and give that folder',
  other: 'check where the file comes from',
} as const;

/** File extensions in lower case. Those of programs, such as `.ts`, are left out. */
const EXTENSIONS: Readonly<Record<keyof typeof ADVICE, readonly string[]>> = {
  image: ['.jxl', '.svg', '.cr2', '.cr3', '.nef', '.arw', '.dng', '.orf', '.rw2', '.raf'],
  video: ['.mp4', '.m4v', '.mov', '.avi', '.mkv', '.webm', '.mpg', '.mpeg', '.wmv', '.3gp', '.m2ts'],
  pages: ['.pdf'],
  other: [],
};

const KINDS = Object.keys(EXTENSIONS) as (keyof typeof ADVICE)[];

/** Formats that are not read, by how a file begins; a character per byte. */
const STARTS: readonly (readonly [start: RegExp, format: string, kind: keyof typeof ADVICE])[] = [
  [/^(?:\xff\n|\0\0\0\fJXL )/, 'JPEG XL', 'image'],
  [/^(?:\xffO\xffQ|\0\0\0\fjP {2})/, 'JPEG 2000', 'image'],
  [/^8BPS/, 'a Photoshop document', 'image'],
  [/^.{4}ftypcrx /s, 'Canon raw (CR3)', 'image'],
  [/^.{4}ftyp/s, 'MP4 or QuickTime, a video', 'video'],
  [/^.E\xdf\xa3/s, 'Matroska or WebM, a video', 'video'],
  [/^RIFF.{4}AVI /s, 'AVI, a video', 'video'],
  [/^%PDF-/, 'PDF', 'pages'],
  [/^(?:\xef\xbb\xbf)?\s*<(?:!doctype )?html/i, 'HTML, a web page', 'other'],
  [/^(?:\xef\xbb\xbf)?\s*(?:<[?!].*)?<svg/is, 'SVG', 'image'],
  [/^version https:\/\/git-lfs/, 'a pointer of Git LFS, whose file was not downloaded', 'other'],
];

/** The most that is read of a file: an SVG may begin with comments. */
const START_BYTES = 1024;

/** Says why a file is not read: which format it has and what to do, where that is known. */
export function describeForeign(bytes: Uint8Array): string {
  const text = textOf(bytes, START_BYTES);
  const found = STARTS.find(([start]) => start.test(text));
  return `its format is not ${FORMATS_SHOWN}${found ? `: it is ${found[1]}; ${ADVICE[found[2]]}` : ''}`;
}

/** What to do with files of an extension that is known and not read; undefined for others. */
export function adviceFor(extension: string): string | undefined {
  const kind = KINDS.find((one) => EXTENSIONS[one].includes(extension));
  return kind && ADVICE[kind];
}
