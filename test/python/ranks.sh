#!/bin/sh
# `tapir train` over two ranks, gloo on the CPU. Each result must have the bytes of an undisturbed run: killed with -9 at drawn moments and
# started again by torchrun and by Ray; stopped by Ctrl-C at the launcher. See README.md.
#   test/python/ranks.sh PHOTOS MODEL [KILLS]
set -eu
cd "$(dirname "$0")/../.."
photos=$1 model=$2 kills=${3:-3} epochs=${EPOCHS:-6} norms=${NORMS:-synced}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TAPIR="node $PWD/dist/lib/bin.cjs" PYTHONPATH="$PWD/integrations/python" PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
train() {
  out=$1
  shift
  torchrun --nproc-per-node 2 "$@" -m onnx_tapir.train "$photos" --model "$model" --out "$work/$out.onnx" --epochs "$epochs" --batch 4 \
    --transform '{"resize":64,"crop":64}' --train 'conv5,fc' --set batchNorm="$norms" --set seed=1 --set decodeThreads=1
}
same() {
  cmp "$work/whole.onnx" "$work/$1.onnx" && echo "$1: the same bytes"
}
# The node process of a rank, by the parent that torchrun started.
node_of() { pgrep -f "bin.cjs train .*$work/$1.onnx" | sed -n "$2p"; }

train whole > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -c '^epoch' "$work/log"
cat "$work/log" | grep -v '^epoch\|^\*\*\|^W\|OMP' || true

i=0
while [ "$i" -lt "$kills" ]; do
  i=$((i + 1))
  train "kill$i" --max-restarts 3 > "$work/log" 2>&1 &
  job=$!
  until grep -q '^epoch [1-9]/' "$work/log"; do sleep 0.2; done
  sleep "0.$(awk -v s="$i$$" 'BEGIN { srand(s); print int(10 * rand()) }')"
  victim=$(node_of "kill$i" $((i % 2 + 1)))
  kill -9 "$victim"
  wait "$job" || { cat "$work/log"; exit 1; }
  grep -h 'resumes in\|is lost' "$work/log" | cut -c1-160 || true
  same "kill$i"
done

train stop > "$work/log" 2>&1 &
until grep -q '^epoch 1/' "$work/log"; do sleep 0.2; done
kill -INT "$(pgrep -f "torchrun.*$work/stop.onnx" | head -1)"
wait $! || echo "stopped: torchrun ended with $?"
grep -h 'stopped in\|exitcode' "$work/log" | cut -c1-160 || true
train stop > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -h 'resumes in' "$work/log"
same stop

python -c 'import ray' 2> /dev/null || { echo 'NOT RUN: Ray: it is not installed'; exit 0; }
cat > "$work/ray_train.py" <<END
import os, signal, subprocess, sys, threading, time
import ray
from onnx_tapir.ray import train
out = "$work/ray.onnx"
def kill():
    while not os.path.exists(out + ".training/checkpoint.json"):
        time.sleep(0.2)
    time.sleep(0.4)
    found = subprocess.run(["pgrep", "-f", f"bin.cjs train .*{out}"], capture_output=True, text=True).stdout.split()
    os.kill(int(found[-1]), signal.SIGKILL)
    print("killed a rank of Ray", flush=True)
threading.Thread(target=kill, daemon=True).start()
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=True, object_store_memory=100 * 2**20)
train("$photos", model="$model", out=out, num_workers=2, tapir="$TAPIR".split(), env={"OMP_NUM_THREADS": "1"}, flags=[
    "--epochs", "$epochs", "--batch", "4", "--transform", '{"resize":64,"crop":64}', "--train", "conv5,fc",
    "--set", "batchNorm=$norms", "--set", "seed=1", "--set", "decodeThreads=1"])
END
RAY_USAGE_STATS_ENABLED=0 RAY_TMPDIR="$work" timeout 500 python "$work/ray_train.py" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -h 'killed a rank\|resumes in' "$work/log" | cut -c1-160
same ray
