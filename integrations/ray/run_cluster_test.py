"""The real thing: `embed` on a local Ray cluster of two nodes, with processes and workers that are killed while it runs.

    python run_cluster_test.py --tapir node dist/lib/bin.cjs --model tiny.onnx --return avgpool=embedding --photos examples/photos

Each run's rows must equal those of one `tapir embed` into a dataset, bit for bit, and no tapir process may be left.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

from onnx_tapir_ray import embed

IMAGES = 2000
BROKEN_EVERY = 397
ROWS_PER_BLOCK = 125
BATCH = 40
MODEL_BATCH = 8
OBJECT_STORE_BYTES = 200 * 2**20
NODES = 2
#: As Ray counts: one for the actor, one for the tasks that hand it blocks.
NODE_CPUS = 2

#: What is known of an image: status, error code, the bytes of its vector.
Row = tuple[str, str | None, bytes | None]


def make_images(photos: Path, folder: Path) -> list[str]:
    """Copies of the photos, a few of which are broken; their paths."""
    originals = sorted(photos.rglob("*.jpg"))
    paths = []
    for i in range(IMAGES):
        path = folder / f"{i:05d}.jpg"
        data = originals[i % len(originals)].read_bytes()
        if i % BROKEN_EVERY == BROKEN_EVERY - 1:
            data = [b"", b"no image at all", data[: len(data) // 3]][i // BROKEN_EVERY % 3]
        path.write_bytes(data)
        paths.append(str(path))
    # One that is not there.
    os.unlink(paths[-1])
    return paths


def embed_alone(args: argparse.Namespace, paths: list[str], folder: Path) -> dict[str, Row]:
    """The same images by one process into a dataset."""
    listed, out = folder / "images.txt", folder / "dataset"
    listed.write_text("\n".join(paths) + "\n")
    flags = ["--return", args.request, "--batch", str(MODEL_BATCH), "--device", "cpu", "--sessions", "1", "--threads", "1"]
    command = [*args.tapir, "embed", str(listed), "--model", args.model, *flags, "--out", str(out), "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE)
    if ended.returncode not in (0, 1):
        sys.exit(f"the single process ended with exit code {ended.returncode}")
    key = args.request.split("=")[-1]
    parts = sorted((out / "features" / key).glob("*.npy"))
    features = np.concatenate([np.load(part) for part in parts])
    rows: dict[str, Row] = {}
    for part in sorted((out / "metadata").glob("*.parquet")):
        for row in pq.read_table(part, columns=["path", "status", "row", "error_code"]).to_pylist():
            vector = None if row["row"] is None else features[row["row"]].tobytes()
            rows[os.path.join(listed.parent, row["path"])] = (row["status"], row["error_code"], vector)
    return rows


def tapir_processes(model: str) -> dict[int, int]:
    """The tapir processes that use this model, and the process above each."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            # The launcher has the same words after its own, for the moment until it becomes tapir.
            if model.encode() in words and b"embed" in words and b"-" in words and b"launch.py" not in b" ".join(words):
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if stat[0] != "Z":
                    found[int(entry.name)] = int(stat[1])
        except (OSError, ValueError):
            continue
    return found


def run(args: argparse.Namespace, paths: list[str], disturb: Callable[[dict[int, int]], int] | None) -> tuple[dict, list]:
    """Embeds on the cluster; after the first rows, disturbs it once."""
    images = ray.data.from_items([{"path": path, "number": i} for i, path in enumerate(paths)])
    dataset = embed(
        images.repartition(len(paths) // ROWS_PER_BLOCK),
        model=args.model,
        return_nodes=dict([args.request.split("=")]),
        batch_size=BATCH,
        model_batch=MODEL_BATCH,
        num_cpus=1,
        concurrency=NODES,
        tapir=args.tapir,
        timeout_s=240,
    )
    key = args.request.split("=")[-1]
    rows: dict[str, Row] = {}
    count, killed, seen = 0, None, set()
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        seen |= set(tapir_processes(args.model))
        for row in batch.to_pylist():
            vector = None if row[key] is None else np.array(row[key], np.float32).tobytes()
            rows[row["path"]] = (row["status"], row["error_code"], vector)
            assert paths[row["number"]] == row["path"], "a column that passes through belongs to another row"
            count += 1
        if disturb and killed is None:
            killed = disturb(tapir_processes(args.model))
            at = count
    check(count == len(paths), f"{count} rows, {len(paths)} expected")
    if disturb:
        check(at < len(paths) // 2, f"the kill came after {at} rows, which is too late to mean anything")
    return rows, sorted(seen)


def check_bytes(args: argparse.Namespace, paths: list[str], expected: dict[str, Row]) -> int:
    """Images as bytes that Ray has read, which are not kept: the same rows as from their paths."""
    dataset = ray.data.read_binary_files([path for path in paths if os.path.exists(path)], include_paths=True)
    key = args.request.split("=")[-1]
    dataset = embed(
        dataset,
        model=args.model,
        return_nodes=args.request,
        column="bytes",
        keep_column=False,
        batch_size=BATCH,
        model_batch=MODEL_BATCH,
        concurrency=NODES,
        tapir=args.tapir,
    )
    rows = dataset.take_all()
    check("bytes" not in rows[0], "the images were kept")
    for row in rows:
        vector = None if row[key] is None else np.array(row[key], np.float32).tobytes()
        check(expected[row["path"]] == (row["status"], row["error_code"], vector), f"as bytes, {row['path']} differs")
    return len(rows)


def check(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {what}")


def kill_tapir(processes: dict[int, int]) -> int:
    pid = min(processes)
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_worker(processes: dict[int, int]) -> int:
    pid = processes[min(processes)]
    os.kill(pid, signal.SIGKILL)
    return pid


def check_none_left(model: str) -> None:
    deadline = time.monotonic() + 60
    while tapir_processes(model):
        check(time.monotonic() < deadline, f"tapir processes are left: {tapir_processes(model)}")
        time.sleep(0.2)


def check_failure_is_told(args: argparse.Namespace, paths: list[str]) -> None:
    images = ray.data.from_items([{"path": path} for path in paths[:10]])
    dataset = embed(images, model=args.model, return_nodes="no.such.layer", tapir=args.tapir, concurrency=1)
    try:
        dataset.materialize()
    except Exception as error:
        check("NAME_NOT_FOUND" in str(error), f"the error does not hold what tapir wrote: {error}")
        return
    sys.exit("FAILED: a wrong name was no error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tapir", nargs="+", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--return", dest="request", required=True)
    parser.add_argument("--photos", required=True, type=Path)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tapir-ray-"))
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": NODE_CPUS, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False},
    )
    try:
        for _ in range(NODES - 1):
            cluster.add_node(num_cpus=NODE_CPUS, object_store_memory=OBJECT_STORE_BYTES)
        ray.init(address=cluster.address, logging_level=logging.WARNING, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        check(len(ray.nodes()) == NODES, f"{len(ray.nodes())} nodes")
        paths = make_images(args.photos, folder)
        began = time.monotonic()
        expected = embed_alone(args, paths, folder)
        statuses = Counter(status for status, _, _ in expected.values())
        print(f"one process: {dict(statuses)} in {time.monotonic() - began:.1f} s", flush=True)
        check(set(expected) == set(paths), "the single run has other paths")
        check(statuses["error"] == IMAGES // BROKEN_EVERY + 1, "as many errors as broken images")
        for name, disturb in (("undisturbed", None), ("a tapir killed", kill_tapir), ("a worker killed", kill_worker)):
            began = time.monotonic()
            rows, seen = run(args, paths, disturb)
            differing = [path for path in paths if rows[path] != expected[path]]
            check(not differing, f"{name}: {len(differing)} images differ, such as {differing[:3]}")
            if disturb:
                check(len(seen) > NODES, f"{name}: only the processes {seen} were seen")
            check_none_left(args.model)
            summary = {"rows": len(rows), "equal": True, "processes": len(seen), "seconds": round(time.monotonic() - began, 1)}
            print(f"{name}: {json.dumps(summary)}", flush=True)
        count = check_bytes(args, paths[-BROKEN_EVERY:], expected)
        check(count == BROKEN_EVERY - 1, f"{count} rows of images as bytes")
        check_none_left(args.model)
        print(f"as bytes: {count} rows, equal", flush=True)
        check_failure_is_told(args, paths)
        check_none_left(args.model)
        print("a wrong name: the error holds what tapir wrote", flush=True)
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
