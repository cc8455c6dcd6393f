"""The real thing: `embed` of one engine, with the real tapir, on a local cluster whose processes are killed in the middle.

    python run_engine_test.py dask --model tiny.onnx --photos examples/photos --guide docs/guides/many-machines.md

The command is `tapir` on the PATH. Each run's rows must equal those of one `tapir embed`, bit for bit; `tapir import` must make the
same dataset of them; a model that does not exist must fail on the driver; the guide's block must run; no tapir may be left.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onnx_tapir import TapirProcess, TapirProcessError

PHOTOS = 500
BROKEN = 123
#: This photo lies on a server, which kills the process that asks for it.
MIDDLE = 250
PARTS = 10
BATCH = 25
MODEL_BATCH = 8
WORKERS = 2
DRIVER_S = 5.0

#: What is known of a photo: status, error code, the bytes of its vector.
Row = tuple[str, "str | None", "bytes | None"]


class Engine(NamedTuple):
    """What the test does with an engine: a table into it, its `embed`, the rows out of it as Parquet."""

    load: Callable[[pa.Table], Any]
    embed: Callable[..., Any]
    write: Callable[[Any, str], object]


@contextmanager
def ray_cluster(folder: Path) -> Iterator[Engine]:
    import ray
    from ray.cluster_utils import Cluster

    from onnx_tapir.ray import embed

    # As Ray counts: one core for the actor, one for the tasks that hand it blocks.
    node: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 200 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        ray.init(address=cluster.address, logging_level=logging.WARNING, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        check(len(ray.nodes()) == WORKERS, f"{len(ray.nodes())} nodes")
        yield Engine(
            lambda table: ray.data.from_arrow(table).repartition(PARTS),
            partial(embed, batch_size=BATCH, concurrency=WORKERS),
            lambda rows, out: rows.write_parquet(out),
        )
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def spark_cluster(folder: Path) -> Iterator[Engine]:
    from pyspark.sql import SparkSession

    from onnx_tapir.spark import embed

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local-cluster[{WORKERS},1,1024]")
    for key, value in {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path[1:]),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:

        def load(table: pa.Table) -> object:
            file = tempfile.mktemp(suffix=".parquet", dir=folder)
            pq.write_table(table, file)
            return spark.read.parquet(file).repartition(PARTS)

        yield Engine(load, embed, lambda rows, out: rows.write.parquet(out))
    finally:
        spark.stop()


@contextmanager
def dask_cluster(folder: Path) -> Iterator[Engine]:
    import dask
    import dask.dataframe as dd
    import pandas as pd
    from dask.distributed import Client, LocalCluster

    from onnx_tapir.dask import embed

    dask.config.set({"temporary-directory": str(folder)})
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=2, dashboard_address=None, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster),
    ):
        yield Engine(
            lambda table: dd.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=PARTS),
            embed,
            lambda rows, out: rows.to_parquet(out),
        )


@contextmanager
def daft_runner(folder: Path) -> Iterator[Engine]:
    import daft

    from onnx_tapir.daft import embed

    daft.set_runner_native()
    yield Engine(daft.from_arrow, partial(embed, batch_size=BATCH), lambda rows, out: rows.write_parquet(out))
    # Daft's process is this one.
    TapirProcess.close_shared()


#: Per engine its cluster, and whether its workers are processes that can be killed without the driver.
ENGINES = {
    "ray": (ray_cluster, True),
    "spark": (spark_cluster, True),
    "dask": (dask_cluster, True),
    "daft": (daft_runner, False),
}


class Server(ThreadingHTTPServer):
    """Serves one photo, and kills once who asks for it: the tapir process, or the worker above it."""

    daemon_threads = True

    def __init__(self, photo: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Photo)
        self.photo = photo
        self.url = f"http://127.0.0.1:{self.server_port}/middle.jpg"
        self.armed: str | None = None
        self.killed: int | None = None
        self.arming = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def strike(self, port: int) -> None:
        with self.arming:
            what, self.armed = self.armed, None
            if what is not None:
                pid = process_at(port)
                self.killed = pid if what == "tapir" else parent_of(pid)
                check(self.killed != os.getpid(), "the worker is the driver")
                os.kill(self.killed, signal.SIGKILL)

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked may be dead."""


class Photo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.strike(self.client_address[1])
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.photo)))
        self.end_headers()
        self.wfile.write(self.server.photo)

    def log_message(self, *_: object) -> None:
        pass


def process_at(port: int) -> int:
    """The process that has a connection from this port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(line[9] for line in lines if int(line[1].split(":")[1], 16) == port and line[9] != "0")
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and any(os.readlink(fd) == f"socket:[{inode}]" for fd in (entry / "fd").iterdir()):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"nobody is at port {port}")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def tapir_processes(model: str) -> list[int]:
    """The tapir processes that use this model."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            is_ours = model.encode() in words and b"embed" in words and b"-" in words
            if is_ours and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def check(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"FAILED: {what}")


def make_photos(photos: Path, folder: Path, url: str) -> list[str]:
    """Copies of the photos, one of them broken, one at the server; their names."""
    originals = sorted(photos.rglob("*.jpg"))
    names = []
    for i in range(PHOTOS):
        data = originals[i % len(originals)].read_bytes()
        path = folder / f"{i:05d}.jpg"
        path.write_bytes(data[: len(data) // 3] if i == BROKEN else data)
        names.append(url if i == MIDDLE else str(path))
    return names


def tapir(*words: object) -> None:
    """Runs a command of tapir's; exit code 1 says that photos have failed."""
    ended = subprocess.run(["tapir", *map(str, words)], stdout=subprocess.DEVNULL)
    check(ended.returncode in (0, 1), f"tapir {words[0]} ended with exit code {ended.returncode}")


def embed_alone(model: str, names: list[str], folder: Path) -> Path:
    """The same photos by one process into a dataset."""
    listed, out = folder / "images.txt", folder / "dataset"
    listed.write_text("\n".join(names) + "\n")
    flags = ("--batch", MODEL_BATCH, "--device", "cpu", "--set", "sessions=1", "--set", "threads=1", "--allow-http")
    tapir("embed", listed, "--model", model, "--return", "avgpool=embedding", *flags, "--out", out)
    return out


def rows_of_dataset(dataset: Path, base: Path) -> dict[str, Row]:
    """The rows of a dataset by name; names that are relative are below `base`."""
    features = np.concatenate([np.load(part) for part in sorted((dataset / "features/embedding").glob("*.npy"))])
    rows: dict[str, Row] = {}
    for part in sorted((dataset / "metadata").glob("*.parquet")):
        for row in pq.read_table(part, columns=["path", "status", "row", "error_code"]).to_pylist():
            name = row["path"] if "://" in row["path"] else os.path.join(base, row["path"])
            check(name not in rows, f"{name} is twice in {dataset.name}")
            rows[name] = (row["status"], row["error_code"], None if row["row"] is None else features[row["row"]].tobytes())
    return rows


def rows_of_tables(folder: Path, names: list[str]) -> dict[str, Row]:
    """The rows that an engine has written, each of which must be there once, with its number."""
    rows: dict[str, Row] = {}
    for part in folder.rglob("*.parquet"):
        for row in pq.read_table(part).to_pylist():
            name = names[row["number"]]
            check(row.get("path", name) == name, f"a column that passes through belongs to another row than {name}")
            check(name not in rows, f"{name} is twice in {folder.name}")
            vector = row["embedding"]
            rows[name] = (row["status"], row["error_code"], None if vector is None else np.array(vector, np.float32).tobytes())
    return rows


def check_equal(what: str, rows: dict[str, Row], expected: dict[str, Row]) -> None:
    differing = [name for name in expected if rows.get(name) != expected[name]]
    check(not differing and len(rows) == len(expected), f"{what}: {len(rows)} rows, {len(differing)} differ: {differing[:3]}")
    print(f"{what}: {len(rows)} rows once, equal to tapir embed's", flush=True)


def check_model_is_missed(engine: Engine, table: pa.Table, folder: Path, arguments: dict) -> None:
    missing, frame = str(folder / "no-such.onnx"), engine.load(table)
    began = time.monotonic()
    subprocess.run(["tapir", "embed", "-", "--model", missing, "--out", "-"], stdin=subprocess.DEVNULL, capture_output=True)
    alone = time.monotonic() - began
    try:
        engine.embed(frame, **{**arguments, "model": missing})
    except TapirProcessError as error:
        seconds = time.monotonic() - began - alone
        check(error.code == "MODEL_UNREADABLE" and "there is no file" in str(error), f"the error is {error}")
        # A machine that is busy with other tests takes long for the command itself.
        check(seconds < max(DRIVER_S, 2 * alone), f"it took {seconds:.1f} s")
        print(f"no such model: {error.code} on the driver after {seconds:.1f} s", flush=True)
        return
    raise SystemExit("FAILED: a model that does not exist was no error")


def check_way_back(tables: Path, folder: Path, expected: dict[str, Row]) -> None:
    imported = folder / "imported"
    tapir("import", tables, "--column", "embedding", "--path", "path", "-o", imported)
    check_equal("tapir import", rows_of_dataset(imported, folder), expected)
    tapir("report", imported, "-o", folder / "report.html")
    tapir("dedupe", imported, "--cosine", "0.999")
    tapir("search", imported, "--path", next(iter(expected)))
    tapir("probe", imported, "--labels", "column:label", "--kind", "knn")


def check_nulls(engine: Engine, names: list[str], folder: Path, arguments: dict) -> None:
    """Parts of which every cell is null, and an output that is called as an argument of the engine."""
    cells = [None] * PHOTOS + names[:PARTS]
    table = pa.table({"path": pa.array(cells, pa.string()), "number": range(len(cells))})
    rows = engine.embed(engine.load(table), **{**arguments, "return_nodes": {"avgpool": "self"}})
    engine.write(rows, str(folder / "nulls"))
    found = [row for part in (folder / "nulls").rglob("*.parquet") for row in pq.read_table(part).to_pylist()]
    codes = [row["error_code"] for row in sorted(found, key=lambda row: row["number"])]
    check(codes == ["IMAGE_EMPTY"] * PHOTOS + [None] * PARTS, f"nulls gave {set(codes)} in {len(codes)} rows")
    check(sum(row["self"] is not None for row in found) == PARTS, "the output has other rows")
    print(f"nulls: {PHOTOS} rows with an error, {PARTS} with an output", flush=True)


def check_guide(guide: str, engine: str, table: pa.Table, model: str, folder: Path) -> None:
    """Runs the engine's block of the guide, with a folder in the place of /data."""
    data = folder / "data"
    data.mkdir()
    shutil.copy(model, data / "resnet50.onnx")
    pq.write_table(table, data / "photos.parquet")
    section = re.search(rf"^## {engine}\n.*?^```python\n(.*?)^```", guide, re.M | re.S | re.I)
    if section is None:
        raise SystemExit(f"FAILED: the guide has no block for {engine}")
    block = section[1]
    check(len(block.strip().splitlines()) <= 12, "the block has more than ten lines or so")
    exec(compile(block.replace("/data", str(data)), f"guide: {engine}", "exec"), {"__name__": "guide"})
    rows = pa.concat_tables([pq.read_table(part) for part in (data / "vectors").rglob("*.parquet")], promote_options="permissive")
    check(rows.num_rows == table.num_rows, f"the guide's block gave {rows.num_rows} rows")
    check(set(rows.column("status").to_pylist()) == {"ok", "error"}, "the guide's block gave no photo or no error")
    tapir("import", data / "vectors", "--column", "embedding", "--path", "path", "-o", folder / "guide-dataset")
    print(f"the guide's block: {rows.num_rows} rows", flush=True)


def test(engine: str, args: argparse.Namespace, folder: Path) -> None:
    photos = folder / "photos"
    photos.mkdir()
    server = Server(next(args.photos.rglob("*.jpg")).read_bytes())
    names = make_photos(args.photos, photos, server.url)
    expected = rows_of_dataset(embed_alone(args.model, names, folder), folder)
    failed = {name: row for name, row in expected.items() if row[0] == "error"}
    check([*failed] == [names[BROKEN]] and failed[names[BROKEN]][1] == "IMAGE_TRUNCATED", f"failed alone: {failed}")
    check(set(expected) == set(names), "the single run has other names")
    table = pa.table({"path": names, "number": range(PHOTOS), "label": [f"label {i % 6}" for i in range(PHOTOS)]})
    arguments = {
        "model": args.model,
        "return_nodes": {"avgpool": "embedding"},
        "model_batch": MODEL_BATCH,
        "flags": ["--allow-http"],
        "timeout_s": 240,
    }
    cluster, has_workers = ENGINES[engine]
    with cluster(folder) as local:
        check_model_is_missed(local, table, folder, arguments)
        for what in ("tapir", "worker") if has_workers else ("tapir",):
            out, server.armed, server.killed = folder / f"{what}-killed", what, None
            began = time.monotonic()
            local.write(local.embed(local.load(table), **arguments), str(out))
            check(server.killed is not None, "nothing was killed")
            print(f"{what} {server.killed} killed at photo {MIDDLE} of {PHOTOS}, {time.monotonic() - began:.1f} s in all")
            check_equal(f"a {what} killed", rows_of_tables(out, names), expected)
        check_way_back(out, folder, expected)
        some = [i for i in range(MIDDLE) if i % 5 == BROKEN % 5]
        images = pa.table({"image": [Path(names[i]).read_bytes() for i in some], "number": some})
        rows = local.embed(local.load(images), **{**arguments, "column": "image", "keep_column": False})
        local.write(rows, str(folder / "bytes"))
        check_equal("bytes", rows_of_tables(folder / "bytes", names), {names[i]: expected[names[i]] for i in some})
        check_nulls(local, names, folder, arguments)
        check_guide(args.guide.read_text(), engine, table.slice(BROKEN - 20, 40).select(["path", "label"]), args.model, folder)
    deadline = time.monotonic() + 60
    while left := tapir_processes(args.model):
        check(time.monotonic() < deadline, f"tapir processes are left: {left}")
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--model", required=True)
    parser.add_argument("--photos", required=True, type=Path)
    parser.add_argument("--guide", required=True, type=Path)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tapir-engine-"))
    try:
        test(args.engine, args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
