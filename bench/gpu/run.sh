#!/usr/bin/env bash
# On a GPU machine (Linux x64, driver, Python with NVIDIA's CUDA packages; no Node, no network): unpacks what pack.sh collected
# and measures. Usage:
#   bench/gpu/run.sh [--kit DIR] [--work DIR] [--cuda-libs DIR[:DIR…]] [--no-cuda] [-- arguments of measure.ts]
# --kit   the folder that pack.sh wrote (.gpu-kit); its parts may arrive one by one, in any order
# --work  where to unpack, kept for the next call (a temporary folder that is removed)
# --check runs check.ts instead of the bench
# --tapir runs the command with the rest of the arguments instead of the bench: run.sh --tapir -- bench model MODEL …
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
kit="$root/.gpu-kit"
work=
libs=
with_cuda=1
program=measure
while [ $# -gt 0 ]; do
  case "$1" in
    --kit) kit=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    --cuda-libs) libs=$2; shift 2 ;;
    --no-cuda) with_cuda=0; shift ;;
    --check) program=check; shift ;;
    --tapir) program=tapir; shift ;;
    --) shift; break ;;
    *) echo "run.sh: unknown argument $1" >&2; exit 2 ;;
  esac
done
if [ -z "$work" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"

# unpack NAME: joins the parts and checks them; Python reads xz where no xz is installed.
unpack() {
  [ -e "$work/$1.unpacked" ] && return
  (cd "$kit" && grep " $1\.tar\.xz\.part-" SHA256SUMS | sha256sum --check --quiet) || {
    echo "run.sh: parts of $1 are missing or damaged in $kit" >&2
    exit 4
  }
  mkdir -p "$2"
  cat "$kit/$1".tar.xz.part-* | python3 -c '
import sys, tarfile
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|xz") as archive:
    archive.extractall(sys.argv[1], filter="tar")
' "$2"
  touch "$work/$1.unpacked"
}
unpack runtime "$work/kit"
package="$work/kit/node_modules/onnx-tapir"
binding=$(echo "$work"/kit/node_modules/onnxruntime-node/bin/napi-v*/linux/x64)
if [ "$with_cuda" = 1 ]; then unpack cuda "$binding"; fi
# What is edited most travels apart from the parts.
rm -rf "$package/dist"
cp -R "$kit/app/dist" "$package/dist"
cp "$kit"/app/*.js "$work/kit/"

if [ "$with_cuda" = 1 ] && [ -z "$libs" ]; then
  libs=$(python3 - <<'PY'
import pathlib, site, sys
# The folders of NVIDIA's packages that hold libraries: nvidia/cu13/lib, nvidia/cudnn/lib, …
folders = dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path])
found = {}
for folder in folders:
    root = pathlib.Path(folder or '.') / 'nvidia'
    if folder and root.is_dir():
        for path in sorted(root.rglob('*.so*')):
            found[str(path.parent)] = None
print(':'.join(found))
PY
  )
fi
for folder in /usr/local/nvidia/lib64 /usr/local/cuda/lib64; do
  if [ -d "$folder" ]; then libs="${libs:+$libs:}$folder"; fi
done
export LD_LIBRARY_PATH="${libs}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ "$with_cuda" = 1 ] && command -v ldd >/dev/null; then
  lacking=$(ldd "$binding/libonnxruntime_providers_cuda.so" | grep 'not found' || true)
  if [ -n "$lacking" ]; then printf 'run.sh: the CUDA provider lacks\n%s\n' "$lacking" >&2; fi
fi
if [ "$program" = tapir ]; then
  "$work/kit/node" "$package/dist/lib/bin.cjs" "$@"
else
  "$work/kit/node" "$work/kit/$program.js" "$@"
fi
