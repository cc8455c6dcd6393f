"""Reads what write-features.mjs has written with numpy and pyarrow, and compares values bit for bit.

usage: python test/python/read_features.py DIR
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

KEY = "map/4"


def columns(table, dims):
    """Row numbers, paths and values of a table, values as numpy's array of [rows, *dims]."""
    column = table.column(KEY).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    tensor = isinstance(column.type, pa.FixedShapeTensorType)
    if tensor:
        assert list(column.type.shape) == dims, column.type
        column = column.storage
    flat = column.flatten() if dims else column
    assert flat.null_count == 0
    values = flat.to_numpy(zero_copy_only=False)
    return table.column("row").to_pylist(), table.column("path").to_pylist(), values.reshape([-1, *dims]), tensor


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check(path):
    expected = np.load(path)
    rows, dims = len(expected), list(expected.shape[1:])
    numbers = list(range(7, 7 + rows))
    paths = [None if i == 1 else f"höhe/{i}.jpg" for i in range(rows)]

    arrow = columns(pa.ipc.open_file(path.with_suffix(".arrow")).read_all(), dims)
    assert arrow[:2] == (numbers, paths) and same(arrow[2], expected), "arrow"
    assert arrow[3] == (len(dims) > 1), "arrow: tensor type"

    parquet = columns(pa.parquet.read_table(path.with_suffix(".parquet")), dims)
    assert parquet[:2] == (numbers, paths) and same(parquet[2], expected), "parquet"


def main():
    files = sorted(Path(sys.argv[1]).glob("*.npy"))
    assert files, "no files"
    for path in files:
        try:
            check(path)
        except Exception as error:
            raise SystemExit(f"{path.stem}: {type(error).__name__}: {error}") from error
        print(f"{path.stem}: npy, arrow and parquet agree")
    print(f"{len(files)} arrays; numpy {np.__version__}, pyarrow {pa.__version__}")


main()
