#!/usr/bin/env bash
# The Python package as users get it: the wheel in a fresh Python environment, the packed npm package beside it, and an engine on a
# local cluster (integrations/python/run_engine_test.py). Arguments: engines, by default ray dask daft, and spark where there is a JVM.
# Needs dist/, the npm registry, python3 and the Python package index; where the latter two are missing it says so and is no failure.
# TAPIR_PYTHON: a Python that has the engines, numpy, pytest and setuptools >= 77 already.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f dist/lib/bin.cjs ] || { echo "dist/ is missing: npm run build" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/tapir-python.XXXXXX")
trap 'rm -rf "$folder"' EXIT
skip() {
  echo "NOT RUN: the Python package: $1"
  exit 0
}
reason() { grep -v '^\[notice\]' "$folder/log" | tail -n 1; }
# The version of Java's language: 17, 21.
java_version() { java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'; }

engines=("$@")
if [ ${#engines[@]} -eq 0 ]; then
  engines=(ray dask daft)
  if [ "$(java_version)" -ge 17 ] 2>/dev/null; then engines+=(spark); else echo "NOT RUN: Spark: there is no Java 17 here"; fi
fi
packages=(numpy pytest 'setuptools>=77')
for engine in "${engines[@]}"; do
  case $engine in
    ray) packages+=('ray[data]>=2.60') ;;
    dask) packages+=('dask[dataframe,distributed]>=2025.1') ;;
    daft) packages+=('daft>=0.7') ;;
    spark) packages+=('pyspark[sql]>=4.0') ;;
    *) echo "no engine $engine: ray, dask, daft or spark" >&2; exit 2 ;;
  esac
done

[ "$(uname -s)" = Linux ] || skip "it looks for processes in /proc"
python=${TAPIR_PYTHON:-}
if [ -z "$python" ]; then
  command -v python3 >/dev/null || skip "there is no python3 here"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
  python3 -m venv "$folder/venv" >"$folder/log" 2>&1 || skip "python3 -m venv does not work here: $(reason)"
  python=$folder/venv/bin/python
  # Whether the index answers. A package that it lacks afterwards is a failure.
  timeout 120 "$python" -m pip install -q --retries 1 'setuptools>=77' >"$folder/log" 2>&1 ||
    skip "the package index does not answer: $(reason)"
  timeout 600 "$python" -m pip install -q "${packages[@]}"
fi

# From a copy: building leaves files behind.
cp -R integrations/python "$folder/package"
"$python" -m pip wheel -q --no-deps --no-build-isolation --wheel-dir "$folder" "$folder/package"
"$python" -m pip install -q --no-deps --force-reinstall "$folder"/onnx_tapir-*.whl
# The tests alone: they import what is installed.
mkdir "$folder/tests" && cp -R integrations/python/tests "$folder/tests/tests"
(cd "$folder/tests" && "$python" -m pytest -q -p no:cacheprovider tests)

npm pack --silent --ignore-scripts --pack-destination "$folder" >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts --prefer-offline --prefix "$folder/node" "$folder"/onnx-tapir-*.tgz
model=$folder/model.onnx
node_modules/.bin/tsx --eval "
  import { writeFileSync } from 'node:fs';
  import { buildResNet } from './models/resnet.ts';
  writeFileSync(process.argv[1], buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);" "$model"
export PATH=$folder/node/node_modules/.bin:$PATH XDG_CACHE_HOME=$folder/cache
export RAY_TMPDIR=$folder RAY_USAGE_STATS_ENABLED=0 DAFT_ANALYTICS_ENABLED=0 DO_NOT_TRACK=1
for engine in "${engines[@]}"; do
  echo "== $engine"
  "$python" integrations/python/run_engine_test.py "$engine" --model "$model" --photos examples/photos --guide docs/guides/many-machines.md
done
