#!/usr/bin/env bash
# The Python block of docs/guides/batch-runs.md on a dataset of photos of which one is broken, with pandas from the Python package index.
# Needs dist/ and models/resnet50-untrained.onnx; where the index is missing it says so and is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f dist/lib/index.js ] || { echo "dist/ is missing: npm run build" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/tapir-pandas.XXXXXX")
trap 'rm -rf "$folder"' EXIT
if ! { python3 -m venv "$folder/venv" && timeout 300 "$folder/venv/bin/pip" install --quiet pandas pyarrow; } >"$folder/log" 2>&1; then
  echo "pandas test skipped: pip does not work here: $(tail -n 1 "$folder/log")"
  exit 0
fi
[ -f models/resnet50-untrained.onnx ] || npm run --silent model
node scripts/dirty-photos.js "$folder/photos"
# Exit code 1: some photos failed.
node dist/lib/bin.cjs embed "$folder/photos" --model models/resnet50-untrained.onnx --return avgpool=embedding --out "$folder/vectors" || [ $? -eq 1 ]
awk '/^```python/ { inside = 1; next } /^```/ { inside = 0 } inside' docs/guides/batch-runs.md >"$folder/block.py"
cd "$folder"
venv/bin/python block.py | tee table
# The photo itself is the nearest.
grep -qE 'city/city-0.jpg +1\.0' table
# Five others, none of which failed.
[ "$(grep -cE '\.(jpg|png) ' table)" = 6 ]
