#!/usr/bin/env bash
# The Ray package on a local cluster (integrations/ray/run_cluster_test.py), in a Python environment that is thrown away.
# Needs dist/, python3 and the Python package index; where the latter two are missing it says so and is no failure.
# TAPIR_RAY_PYTHON: a Python that has ray[data], pytest and setuptools >= 77 already.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f dist/lib/bin.cjs ] || { echo "dist/ is missing: npm run build" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/tapir-ray.XXXXXX")
trap 'rm -rf "$folder"' EXIT
skip() {
  echo "Ray test skipped: $1"
  exit 0
}
reason() { grep -v '^\[notice\]' "$folder/log" | tail -n 1; }

[ "$(uname -s)" = Linux ] || skip "it counts processes in /proc"
python=${TAPIR_RAY_PYTHON:-}
if [ -z "$python" ]; then
  command -v python3 >/dev/null || skip "there is no python3 here"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
  python3 -m venv "$folder/venv" >"$folder/log" 2>&1 || skip "python3 -m venv does not work here: $(reason)"
  python=$folder/venv/bin/python
  timeout 120 "$python" -m pip install -q --retries 1 'ray[data]>=2.60' pytest 'setuptools>=77' >"$folder/log" 2>&1 ||
    skip "pip install ray does not work here: $(reason)"
fi

# From a copy: building leaves files behind.
cp -R integrations/ray "$folder/package"
"$python" -m pip install -q --no-deps --no-build-isolation --force-reinstall "$folder/package"
(cd "$folder/package" && "$python" -m pytest -q)

model=$folder/model.onnx
node_modules/.bin/tsx --eval "
  import { writeFileSync } from 'node:fs';
  import { buildResNet } from './models/resnet.ts';
  writeFileSync(process.argv[1], buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);" "$model"
export XDG_CACHE_HOME=$folder/cache RAY_TMPDIR=$folder RAY_USAGE_STATS_ENABLED=0
"$python" integrations/ray/run_cluster_test.py --tapir node "$PWD/dist/lib/bin.cjs" \
  --model "$model" --return avgpool=embedding --photos examples/photos
