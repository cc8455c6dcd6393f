#!/usr/bin/env bash
# Files that take photos in Python's onnxruntime: the Python of docs/guides/one-file-everywhere.md finds the digest that the file states, and the
# vector of a decoded photo is that of `tapir embed`. Needs dist/, python3 and the Python package index; where the latter two are missing it says so
# and is no failure. TAPIR_PYTHON: a Python that has numpy and onnxruntime already.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f dist/lib/bin.cjs ] || { echo "dist/ is missing: npm run build" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/tapir-photo-files.XXXXXX")
trap 'rm -rf "$folder"' EXIT
skip() {
  echo "NOT RUN: photo files in Python: $1"
  exit 0
}
python=${TAPIR_PYTHON:-}
if [ -z "$python" ]; then
  command -v python3 >/dev/null || skip "there is no python3 here"
  python3 -m venv "$folder/venv" >"$folder/log" 2>&1 || skip "python3 -m venv does not work here"
  python=$folder/venv/bin/python
  timeout 300 "$python" -m pip install -q --retries 1 numpy onnxruntime >"$folder/log" 2>&1 ||
    skip "the package index does not answer: $(tail -n 1 "$folder/log")"
fi
node_modules/.bin/tsx --eval "
  import { readFileSync, writeFileSync } from 'node:fs';
  import sharp from 'sharp';
  import { createFeatureExtractor, pruneModel } from 'onnx-tapir';
  void (async () => {
    const folder = process.argv[1];
    const path = 'examples/photos/sea/sea-0.jpg';
    const extractor = await createFeatureExtractor('models/demo.onnx', ['embedding']);
    const wanted = [...(await extractor.embed(path))];
    await extractor.close();
    const { data, info } = await sharp(path).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    writeFileSync(folder + '/photo.rgb', data);
    writeFileSync(folder + '/facts.json', JSON.stringify({ wanted, size: [info.height, info.width, 3] }));
    for (const input of ['photo', 'photo-batch']) {
      const cut = await pruneModel('models/demo.onnx', ['embedding'], { input });
      await cut.save(folder + '/cut.onnx', { overwrite: true });
      // The metadata is text in the file.
      const [, tensor] = /\{\"tensor\":\"([^\"]*)\"/.exec(readFileSync(folder + '/cut.onnx', 'latin1'));
      const both = await pruneModel(folder + '/cut.onnx', { ['tensor:' + tensor]: 'pixels', embedding: 'embedding' }, { keepTensorNames: false });
      await both.save(folder + '/' + input + '.onnx');
    }
  })();" "$folder"
for input in photo photo-batch; do
  "$python" - "$folder" "$input" <<'PYTHON'
import hashlib, json, sys
import numpy as np, onnxruntime

folder, kind = sys.argv[1:]
facts = json.load(open(f"{folder}/facts.json"))
session = onnxruntime.InferenceSession(f"{folder}/{kind}.onnx", providers=["CPUExecutionProvider"])
proof = json.loads(session.get_modelmeta().custom_metadata_map["tapir.proof"])
rows = (lambda photo: photo[None]) if kind == "photo-batch" else (lambda photo: photo)
y, x, c = np.ogrid[:301, :457, :3]
picture = ((3 * x * x + 5 * y * y + 7 * x * y + 89 * c) % 256).astype(np.uint8)
(pixels,) = session.run(["pixels"], {"photo": rows(picture)})
assert hashlib.sha256(pixels.tobytes()).hexdigest() == proof["sha256"], "other bits than the file states"
photo = np.fromfile(f"{folder}/photo.rgb", np.uint8).reshape(facts["size"])
(embedding,) = session.run(["embedding"], {"photo": rows(photo)})
wanted = np.array(facts["wanted"], np.float32)
difference = float(np.abs(embedding[0] - wanted).max())
assert difference < 1e-4, difference
print(f"{kind}: onnxruntime {onnxruntime.__version__} has the bits that the file states; the vector differs by {difference:.1e} at most")
PYTHON
done
