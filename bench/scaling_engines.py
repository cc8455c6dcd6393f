"""What an engine costs per photo, and how far it scales on one machine, beside `tapir embed` on the same cores.

    python bench/scaling_engines.py dask --model resnet50.onnx --photos FOLDER --json dask.json

Needs the engine, onnx-tapir and the command `tapir`. Seconds per photo are the slope between a small and a large run, so starts do
not count; `start_s` is what they cost. Each round runs `tapir embed` and the engine in turn (`ratio`: tapir's seconds through the
engine's). Simulated workers are processes that sleep instead of computing, so many fit on few cores: what is left then is the
scheduler's, Python's and Arrow's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SMALL = 10
#: What a simulated worker takes for a photo.
SIMULATED_S = 0.02
FAKE = Path(__file__).parent.parent / "integrations/python/tests/fake_tapir.py"
#: Embeds the photos of a Parquet file into a folder.
Run = Callable[..., Any]


@contextmanager
def ray(workers: int) -> Iterator[Run]:
    import ray

    from onnx_tapir.ray import embed

    ray.init(num_cpus=2 * workers, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def run(file: str, out: str, **arguments: Any) -> None:
        images = ray.data.read_parquet(file).repartition(8 * workers)
        embed(images, concurrency=workers, batch_size=32, **arguments).write_parquet(out)

    try:
        yield run
    finally:
        ray.shutdown()


@contextmanager
def spark(workers: int) -> Iterator[Run]:
    from pyspark.sql import SparkSession

    from onnx_tapir.spark import embed

    # Else its workers run the Python that stands first in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield lambda file, out, **arguments: embed(
            spark.read.parquet(file).repartition(8 * workers), **arguments
        ).write.parquet(out)
    finally:
        spark.stop()


@contextmanager
def dask(workers: int) -> Iterator[Run]:
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    from onnx_tapir.dask import embed

    with LocalCluster(n_workers=workers, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster):
        yield lambda file, out, **arguments: embed(
            dd.read_parquet(file).repartition(npartitions=8 * workers), **arguments
        ).to_parquet(out)


@contextmanager
def daft(workers: int) -> Iterator[Run]:
    import daft

    from onnx_tapir.daft import embed

    # One process, whatever the workers: they are its cores.
    yield lambda file, out, **arguments: embed(
        daft.read_parquet(file), num_cpus=workers, batch_size=32, **arguments
    ).write_parquet(out)


ENGINES = {"ray": ray, "spark": spark, "dask": dask, "daft": daft}


def slope(run: Callable[[int], None], photos: int) -> dict[str, float]:
    """Seconds per photo, and those of the start."""
    seconds = []
    for count in (max(1, photos // SMALL), photos):
        began = time.perf_counter()
        run(count)
        seconds.append(time.perf_counter() - began)
    each = (seconds[1] - seconds[0]) / (photos - max(1, photos // SMALL))
    return {"photo_s": each, "start_s": seconds[1] - photos * each}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--model", required=True)
    parser.add_argument("--return", dest="node", default="avgpool")
    parser.add_argument("--photos", required=True, type=Path)
    parser.add_argument("--bytes", action="store_true", help="photos as a column of bytes; tapir embed reads their files")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--simulated", default="4,8,16,32,64")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    originals = sorted(map(str, args.photos.rglob("*.jpg")))
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tapir-scaling-") as temporary:
        folder = Path(temporary)
        names = []
        for i in range(args.count):
            # Links: a photo of one name, read once, for each row.
            names.append(str(folder / f"{i:06d}.jpg"))
            os.symlink(os.path.abspath(originals[i % len(originals)]), names[-1])

        runs = 0

        def through(engine: Run, count: int, **arguments: Any) -> None:
            nonlocal runs
            runs += 1
            file = str(folder / f"{runs}.parquet")
            table = pa.table({"path": names[:count]})
            if args.bytes:
                table = pa.table({"photo": pa.array([Path(name).read_bytes() for name in names[:count]], pa.binary())})
                arguments |= {"column": "photo", "keep_column": False}
            pq.write_table(table, file)
            engine(file, str(folder / f"out-{runs}"), model=args.model, return_nodes={args.node: "embedding"}, **arguments)

        def alone(workers: int, count: int) -> None:
            nonlocal runs
            runs += 1
            listed = folder / f"{runs}.txt"
            listed.write_text("\n".join(names[:count]) + "\n")
            words = ["--model", args.model, "--return", f"{args.node}=embedding", "--out", str(folder / f"out-{runs}")]
            # As many cores as the workers have.
            cores = ["--device", "cpu", "--set", f"sessions={workers}", "--set", "threads=1", "--set", f"decodeThreads={workers}"]
            command = ["tapir", "embed", str(listed), *words, *map(str, cores)]
            subprocess.run(command, check=True, capture_output=True)

        for workers in map(int, filter(None, args.workers.split(","))):
            with ENGINES[args.engine](workers) as engine:
                pairs = [
                    (slope(lambda count: alone(workers, count), args.count), slope(lambda count: through(engine, count), args.count))
                    for _ in range(args.rounds)
                ]
            ratios = [tapir["photo_s"] / engine["photo_s"] for tapir, engine in pairs]
            results.append({"workers": workers, "ratio": statistics.median(ratios), "ratios": ratios, "rounds": pairs})
            print(json.dumps({key: results[-1][key] for key in ("workers", "ratio", "ratios")}), flush=True)
        simulated = "" if args.engine == "daft" else args.simulated
        for workers in map(int, filter(None, simulated.split(","))):
            fake = {"tapir": [sys.executable, str(FAKE)], "env": {"FAKE": f"slow:{SIMULATED_S}"}}
            with ENGINES[args.engine](workers) as engine:
                # The first run starts the engine's workers.
                through(engine, 8 * workers, **fake)
                measured = slope(lambda count: through(engine, count, **fake), args.count)
            ideal = SIMULATED_S / workers
            results.append({"simulated": workers, **measured, "ideal_s": ideal, "overhead_s": measured["photo_s"] - ideal})
            print(json.dumps(results[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"engine": args.engine, "photos": args.count, "cores": os.cpu_count(), "results": results}))


if __name__ == "__main__":
    main()
