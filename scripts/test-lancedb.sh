#!/usr/bin/env bash
# The embedding function for LanceDB (integrations/lancedb) with the real package, installed into a folder that is thrown away.
# Needs dist/ and the npm registry; where the latter is missing it says so and is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f dist/lib/index.js ] || { echo "dist/ is missing: npm run build" >&2; exit 1; }

root=$PWD
folder=$(mktemp -d "${TMPDIR:-/tmp}/tapir-lancedb.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cp -R integrations/lancedb/. "$folder/package"
cp tsconfig.json "$folder/tsconfig.json"
sed -i 's#"../../tsconfig.json"#"../tsconfig.json"#' "$folder/package/tsconfig.json"
echo '{ "private": true }' >"$folder/package.json"
cd "$folder"
timeout 300 npm install --no-audit --no-fund @lancedb/lancedb@0.37.1 apache-arrow@18.1.0 >"$folder/log" 2>&1 || {
  echo "LanceDB test skipped: npm install does not work here: $(tail -n 1 "$folder/log")"
  exit 0
}
ln -s "$root" node_modules/onnx-tapir
ln -s "$folder/package" node_modules/onnx-tapir-lancedb
cd package
"$root/node_modules/.bin/tsc" -p . --typeRoots "$root/node_modules/@types"

mkdir -p "$folder/models/clip/onnx"
fixtures=$root/test/fixtures/text/clip
for file in vision_model text_model; do gunzip -c "$fixtures/$file.onnx.gz" >"$folder/models/clip/onnx/$file.onnx"; done
gunzip -c "$fixtures/tokenizer.json.gz" >"$folder/models/clip/tokenizer.json"
cp "$fixtures"/*config.json "$folder/models/clip/"
echo '{ "resize": 32, "crop": 32 }' >"$folder/models/clip/transform.json"
(cd "$root" && node_modules/.bin/tsx --eval "
  import { writeFileSync } from 'node:fs';
  import { buildResNet } from './models/resnet.ts';
  writeFileSync(process.argv[1], buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);" "$folder/models/resnet.onnx")
TAPIR_LANCE_MODELS=$folder/models TAPIR_LANCE_PHOTOS=$root/examples/photos XDG_CACHE_HOME=$folder/cache npm test
