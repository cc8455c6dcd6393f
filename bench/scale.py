"""The twin of bench/scale.ts: makes its tables, and does the same work with numpy and pyarrow. scale.py make|search|import ..."""

import glob
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZE, STEP = 256, 50_000


def make(out: str, rows: int, kind: str) -> None:
    """Vectors of length 1, at random or in clusters of 200 around random directions."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((max(1, rows // 200), SIZE), dtype="f4")
    fields = [("path", pa.string()), ("label", pa.string()), ("embedding", pa.list_(pa.float32()))]
    with pq.ParquetWriter(out, pa.schema(fields)) as writer:
        for start in range(0, rows, STEP):
            count = min(STEP, rows - start)
            numbers = np.arange(start, start + count)
            x = random.standard_normal((count, SIZE), dtype="f4")
            if kind == "clustered":
                x = centres[random.integers(0, len(centres), count)] + np.float32(0.15) * x
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            lists = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype="i4") * SIZE), pa.array(x.ravel()))
            names = [f"folder-{i % 10}/photo-{i:07d}.jpg" for i in numbers]
            table = pa.table([names, [f"class-{i % 20}" for i in numbers], lists], schema=pa.schema(fields))
            writer.write_table(table, row_group_size=STEP)


def search(folder: str, queries: str, top: int) -> None:
    wanted = np.atleast_2d(np.load(queries))
    wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    scores = []
    for file in sorted(glob.glob(f"{folder}/features/*/*.npy")):
        x = np.load(file, mmap_mode="r")
        scores.append((x @ wanted.T) / np.linalg.norm(x, axis=1, keepdims=True))
    scores = np.concatenate(scores)
    files = sorted(glob.glob(f"{folder}/metadata/*.parquet"))
    paths = pa.concat_tables([pq.read_table(file, columns=["path", "row"]) for file in files])["path"]
    for column in scores.T:
        best = np.argpartition(-column, top)[:top]
        print(*[str(paths[int(row)]) for row in best[np.argsort(-column[best])]])


def convert(table: str, out: str) -> None:
    os.makedirs(out)
    for i, batch in enumerate(pq.ParquetFile(table).iter_batches(8192)):
        np.save(f"{out}/{i:05d}.npy", batch["embedding"].flatten().to_numpy().reshape(len(batch), -1))
        pq.write_table(pa.table({"path": batch["path"], "label": batch["label"]}), f"{out}/{i:05d}.parquet")


if __name__ == "__main__":
    command, *given = sys.argv[1:]
    if command == "make":
        make(given[0], int(given[1]), given[2])
    elif command == "search":
        search(given[0], given[1], int(given[2]))
    else:
        convert(*given)
