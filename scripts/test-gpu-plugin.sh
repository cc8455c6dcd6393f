#!/usr/bin/env bash
# Runs test/gpu on the plugin of WebGPU, with the GPU in software. ONNX Runtime gives plugins only the cards that Linux lists, so the
# tests get a list of their own, in a mount namespace. Needs: tapir engines install webgpu-plugin; Debian's chromium and libvulkan1.
#
#   scripts/test-gpu-plugin.sh [files and options of vitest; test/gpu by default]
set -euo pipefail
cd "$(dirname "$0")/.."
export TAPIR_GPU=plugin
[ $# -gt 0 ] || set -- test/gpu
exec unshare -rm bash -c '
  mount -t tmpfs tmpfs /sys/class
  mkdir -p /sys/class/drm/card0 /sys/class/0000:00:01.0
  ln -s /sys/class/0000:00:01.0 /sys/class/drm/card0/device
  cd /sys/class/0000:00:01.0
  echo 0x1ae0 > vendor
  echo 0xc0de > device
  echo 0x030000 > class
  cd "$0"
  exec npx vitest run --project deep "$@"
' "$PWD" "$@"
