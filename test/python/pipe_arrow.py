"""Sends images through `tapir embed - --format arrow --out -` with pyarrow at both ends, and compares what comes back.

    python test/python/pipe_arrow.py MODEL PHOTOS

Needs pyarrow (and numpy). Prints a line per check and fails on the first that does not hold.
"""
import datetime
import decimal
import glob
import io
import subprocess
import sys

import pyarrow as pa

model, photos = sys.argv[1:3]
files = sorted(glob.glob(f"{photos}/**/*.jpg", recursive=True))[:7]
files.insert(3, "no such file.jpg")
rows = len(files)


def pipe(table, *flags, batch_rows=3, returned="avgpool=embedding"):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    command = ["node", "dist/lib/bin.cjs", "embed", "-", "--model", model, "--return", returned]
    command += ["--format", "arrow", "--out", "-", *flags]
    ended = subprocess.run(command, input=sink.getvalue(), capture_output=True, timeout=120)
    assert ended.returncode in (0, 1), (ended.returncode, ended.stderr.decode())
    with pa.ipc.open_stream(ended.stdout) as reader:
        result = reader.read_all()
    result.validate(full=True)
    return result, ended


carried = {
    "int64": pa.array([2**63 - 1, None, -(2**63), 0, 1, 2, 3, 4], pa.int64()),
    "uint8": pa.array(range(rows), pa.uint8()),
    "double": pa.array([0.1, None, float("inf"), -0.0, 1e300, 5, 6, 7]),
    "half": pa.array([1.5, None, 2, 3, 4, 5, 6, 7], pa.float16()),
    "bool": pa.array([True, None, False, True, True, False, False, True]),
    "text": pa.array(["line\nbreak", "🐈", None, "", "a,b", '"q"', "\u0000", "é"]),
    "large_text": pa.array(["x", None, "yy", "", "z", "zz", "zzz", "w"], pa.large_utf8()),
    "bytes": pa.array([b"\x00\xff", None, b"", b"a", b"b", b"c", b"d", b"e"]),
    "large_bytes": pa.array([b"\x00\xff", None, b"", b"a", b"b", b"c", b"d", b"e"], pa.large_binary()),
    "fixed_bytes": pa.array([b"abc", None, b"def", b"ghi", b"jkl", b"mno", b"pqr", b"stu"], pa.binary(3)),
    "list": pa.array([[1, 2], None, [], [3], [4, None], [5], [6, 7, 8], []], pa.list_(pa.int32())),
    "fixed_list": pa.array([[1, 2], None, [3, 4], [5, 6], [7, None], [8, 9], [1, 1], [2, 2]], pa.list_(pa.int16(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}] + [{"a": i, "b": []} for i in range(5)]),
    "map": pa.array([[("k", 1)], None, [], [("a", 2), ("b", 3)]] + [[]] * 4, pa.map_(pa.utf8(), pa.int64())),
    "decimal": pa.array([decimal.Decimal("1.25"), None] + [decimal.Decimal(i) for i in range(6)], pa.decimal128(12, 2)),
    "decimal256": pa.array([decimal.Decimal("1.25"), None] + [decimal.Decimal(i) for i in range(6)], pa.decimal256(50, 2)),
    "date": pa.array([datetime.date(2024, 2, 29), None] + [datetime.date(1970, 1, 1)] * 6),
    "date64": pa.array([datetime.date(2024, 2, 29), None] + [datetime.date(1970, 1, 1)] * 6, pa.date64()),
    "time32": pa.array([1, None, 2, 3, 4, 5, 6, 7], pa.time32("ms")),
    "time64": pa.array([1, None, 2, 3, 4, 5, 6, 7], pa.time64("ns")),
    "timestamp": pa.array([1, None, 2, 3, 4, 5, 6, 7], pa.timestamp("ns", "Europe/Berlin")),
    "duration": pa.array([1, None, 2, 3, 4, 5, 6, 7], pa.duration("us")),
    "null": pa.nulls(rows),
}
fields = [pa.field(name, array.type, metadata={"kept": name}) for name, array in carried.items()]
schema = pa.schema([pa.field("path", pa.utf8()), *fields], metadata={"whose": "mine"})
table = pa.table([pa.array(files), *carried.values()], schema=schema)

for batch_rows in (1, 3, 8):
    for flags in (["--batch", "1"], ["--batch", "4"]):
        result, ended = pipe(table, *flags, batch_rows=batch_rows)
        assert result.column_names == [*carried, "path", "status", "error_code", "error_message", "embedding"]
        for name in carried:
            kept = result[name].combine_chunks()
            assert result.schema.field(name).equals(schema.field(name), check_metadata=True), name
            same = pa.concat_arrays(kept.chunks) if isinstance(kept, pa.ChunkedArray) else kept
            assert same.equals(carried[name]), (name, same, carried[name])
        assert result["path"].to_pylist() == files
        assert result["status"].to_pylist() == ["error" if i == 3 else "ok" for i in range(rows)]
        assert result["error_code"].to_pylist()[3] == "IMAGE_NOT_FOUND"
        assert [value is None for value in result["embedding"].to_pylist()] == [i == 3 for i in range(rows)]
        assert result.schema.metadata == {b"whose": b"mine"}
        assert ended.returncode == 1
print(f"ok  {len(carried)} kinds of columns come back as they were, {result.schema.field('embedding').type}")

vectors = result["embedding"].to_pylist()
images = [open(file, "rb").read() if i != 3 else None for i, file in enumerate(files)]
for kind in (pa.binary(), pa.large_binary()):
    by_bytes, _ = pipe(pa.table({"image": pa.array(images, kind), "id": range(rows)}), "--batch", "4")
    assert by_bytes.column_names[0] == "id" and by_bytes["path"].null_count == rows
    assert by_bytes["embedding"].to_pylist() == vectors
    assert by_bytes["error_code"].to_pylist()[3] == "IMAGE_EMPTY"
print("ok  images as binary give the same vectors as their paths")

named, _ = pipe(pa.table({"path": files, "jpeg": images}), "--column", "jpeg")
assert named["path"].to_pylist() == files and "jpeg" not in named.column_names
print("ok  a column of paths names images that come as bytes")

half, _ = pipe(table.select(["path"]), "--set", "dtype=float16")
assert half.schema.field("embedding").type.value_type == pa.float16()
tensor, _ = pipe(table.select(["path"]), returned="layer4=map")
print(f"ok  float16; a map is {tensor.schema.field('map').type}")
empty, ended = pipe(table.slice(0, 0))
assert empty.num_rows == 0 and empty.column_names == result.column_names and ended.returncode == 0
print("ok  no rows: the schema alone")

for column, what in (("embedding", "output"), ("status", "own")):
    try:
        pipe(table.select(["path", "int64"]).rename_columns(["path", column]))
        raise SystemExit("must be refused")
    except AssertionError as error:
        assert what in str(error) and column in str(error), error
print("ok  names that collide are refused")
