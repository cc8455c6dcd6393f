#!/bin/sh
# Two ranks of `tapir embed --shard auto` under torchrun; what each run is to show stands before it. See README.md.
#   test/python/torchrun.sh PHOTOS MODEL RETURN
set -eu
cd "$(dirname "$0")/../.."
photos=$1 model=$2 returned=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tapir="node $PWD/dist/lib/bin.cjs"

cat > "$work/rank.sh" <<END
#!/bin/sh
# Rank 1 is killed as soon as its first shard is finished, or fails, at its first start.
if [ "\$RANK" = 1 ] && [ "\$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
  if [ "\$HOW" = fail ]; then exec $tapir embed "\$@" --device cuda:9; fi
  # By its own number: what follows replaces this shell.
  journal="$work/\$HOW/parts/1-of-2/journal.jsonl"
  (until [ "\$(wc -l 2> /dev/null < "\$journal" || echo 0)" -ge 3 ]; do sleep 0.01; done; kill -9 \$\$) &
fi
echo "rank \$RANK: start \$TORCHELASTIC_RESTART_COUNT"
exec $tapir embed "\$@"
END
chmod +x "$work/rank.sh"

launch() {
  how=$1
  shift
  HOW=$how PYTHONWARNINGS=ignore torchrun --no-python --nproc-per-node 2 "$@" "$work/rank.sh" "$photos" --model "$model" \
    --return "$returned" --out "$work/$how" --shard auto --set threads=1 --batch 8 --set shardSize=8 2>&1 |
    sed -e "s|$work|WORK|g" -e "s|$PWD|.|g"
}

echo '== killed once, started again: all is there'
launch kill --max-restarts 1
$tapir merge "$work/kill" --source "$photos" | sed "s|$work|WORK|g"

echo '== fails, not started again: the root cause is the stack of JavaScript'
launch fail --max-restarts 0
