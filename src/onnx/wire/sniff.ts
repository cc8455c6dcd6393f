/** What bytes that are no ONNX file look like, so that the error can say what happened to the download. */

const TEXT_SIGNS: readonly (readonly [RegExp, string])[] = [
  [/^version https:\/\/git-lfs/, 'a Git LFS pointer: fetch the file itself with "git lfs pull"'],
  [
    /^\s*(<!doctype html|<html|<\?xml[^>]*>\s*<html)/i,
    'an HTML page: the download probably needs a login or another link',
  ],
  [/^\s*<\?xml/i, 'an XML document'],
  [
    /^\s*(ir_version|graph|opset_import|producer_name)\s*[:{]/,
    'ONNX in text form: convert it to the binary form first',
  ],
  [/^\s*[{[]/, 'JSON text'],
];

const MAGIC_SIGNS: readonly (readonly [number, string, string])[] = [
  [4, 'ORTM', 'an ORT format file (.ort): it cannot be cut; use the .onnx file it was made from'],
  [0, 'PK\u0003\u0004', 'a zip archive (a PyTorch .pt file is one): export it to ONNX, or unpack it first'],
  [0, '\u0089HDF', 'an HDF5 file (Keras .h5): convert it with tf2onnx'],
  [0, '\u001f\u008b', 'a gzip archive: unpack it first'],
  [0, '\u0089PNG', 'a PNG image'],
  [0, '\u00ff\u00d8\u00ff', 'a JPEG image'],
  [4, 'TFL3', 'a TensorFlow Lite file'],
  [0, '\u0080\u0002', 'a Python pickle (an old PyTorch .pth file): export it to ONNX'],
];

/** Says what the first bytes of a file look like, or undefined if nothing is recognised. */
export function sniffFormat(head: Uint8Array): string | undefined {
  if (head.byteLength === 0) return 'an empty file';
  const latin1 = Buffer.from(head.buffer, head.byteOffset, Math.min(head.byteLength, 512)).toString('latin1');
  for (const [offset, magic, what] of MAGIC_SIGNS) {
    if (latin1.startsWith(magic, offset)) return what;
  }
  for (const [pattern, what] of TEXT_SIGNS) {
    if (pattern.test(latin1)) return what;
  }
  return /^[\t\n\r\x20-\x7e]{8,}/.test(latin1) ? 'plain text' : undefined;
}
