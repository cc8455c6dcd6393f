#!/usr/bin/env bash
# The Python blocks of docs/guides/batch-runs.md, pipes.md and vector-databases.md on photos as they come in practice (scripts/dirty-photos.js),
# with pandas, pyarrow, DuckDB, LanceDB and Qdrant's client from the Python package index. Every database must find what `tapir search` finds.
# Needs dist/; where the index is missing it says so and is no failure. The block for PostgreSQL does not run here: scripts/test-databases.js
# runs the same in TypeScript.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f dist/lib/index.js ] || { echo "dist/ is missing: npm run build" >&2; exit 1; }

root=$PWD
folder=$(mktemp -d "${TMPDIR:-/tmp}/tapir-pandas.XXXXXX")
trap 'rm -rf "$folder"' EXIT
install() { timeout 300 "$folder/venv/bin/pip" install --quiet "$@" >"$folder/log" 2>&1; }
if ! { python3 -m venv "$folder/venv" >"$folder/log" 2>&1 && install pandas pyarrow; }; then
  echo "pandas test skipped: pip does not work here: $(tail -n 1 "$folder/log")"
  exit 0
fi
databases=yes
install duckdb lancedb qdrant-client || { databases=; echo "NOT RUN: the databases: $(tail -n 1 "$folder/log")"; }

node scripts/dirty-photos.js "$folder/photos"
node_modules/.bin/tsx --eval "
  import { writeFileSync } from 'node:fs';
  import { buildResNet } from './models/resnet.ts';
  writeFileSync(process.argv[1], buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);" "$folder/resnet50.onnx"
# The command, for blocks that start it themselves.
mkdir "$folder/bin"
printf '#!/bin/sh\nexec node %s/dist/lib/bin.cjs "$@"\n' "$root" >"$folder/bin/tapir"
chmod +x "$folder/bin/tapir"
export PATH=$folder/bin:$PATH PYTHONPATH=$folder
cd "$folder"
# Exit code 1: some photos failed.
embed() { tapir embed photos --model resnet50.onnx --return avgpool=embedding "$@" >embed.log 2>&1 || [ $? -eq 1 ]; }
embed --out vectors
embed --format parquet --out vectors-parquet

# block GUIDE N: the Nth Python block of a guide.
block() {
  awk -v want="$2" '/^```/ { if (inside) inside = 0; else { inside = 1; take = /^```python/ && ++count == want }; next } inside && take' \
    "$root/docs/guides/$1.md"
}
# run GUIDE N ARGUMENTS: runs it, and shows what it prints.
run() {
  { echo 'TAPIR = ["tapir"]'; block "$1" "$2"; } >block.py
  echo "== $1, Python block $2"
  venv/bin/python block.py "${@:3}" 2>errors | tee printed || { cat errors >&2; exit 1; }
}

run batch-runs 1
# The photo itself is the nearest.
grep -qE 'city/city-0.jpg +1\.0' printed
# Five others, none of which failed.
[ "$(grep -cE '\.(jpg|png) ' printed)" = 6 ]

# The same of a merged dataset, whose features lie in its parts.
for part in 0/3 1/3 2/3; do embed --out merged --shard $part; done
tapir merge merged >merge.log 2>&1 || [ $? -eq 1 ]
block batch-runs 1 | sed 's/"vectors"/"merged"/' >block.py
venv/bin/python block.py | tee printed
[ "$(grep -cE '\.(jpg|png) ' printed)" = 6 ]

run pipes 1 photos/sea/sea-0.jpg photos/broken.jpg photos/grey.jpg photos/海/写真.jpg photos/transparent.png
grep -qF 'fixed_size_list<item: float>[128]' printed

block vector-databases 1 >dataset.py
venv/bin/python -c '
from dataset import read
one, merged = (dict(zip(*read(folder, "embedding"))) for folder in ("vectors", "merged"))
assert len(one) == 28 and one.keys() == merged.keys() and all((merged[path] == one[path]).all() for path in one)'
block vector-databases 2 >pipe.py
[ -n "$databases" ] || exit 0
nearest=$(tapir search vectors --path sea/sea-0.jpg --top 3 --json | grep -o '"path": *"[^"]*"' | cut -d'"' -f4)
# found N: a block finds the photo and the three nearest.
found() {
  run vector-databases "$1"
  for path in sea/sea-0.jpg $nearest; do grep -qF "'$path'" printed; done
}
found 3
found 4
found 6
# 24 examples and four of the odd photos; the broken one does not come.
for stream in 5 7; do
  run vector-databases "$stream"
  grep -qx 28 printed
done
