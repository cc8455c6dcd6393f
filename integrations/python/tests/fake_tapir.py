"""Plays `tapir embed - --format arrow --out -`: says of each image what a digest of it gives.

An image whose cell holds "broken" is an error row. What else happens is said by FAKE, in the environment: a word, and a number
after a colon. With FAKE_ONCE it happens to the first process only, which leaves that file behind.
"""

import hashlib
import os
import signal
import sys
import time

import pyarrow as pa

DIMS = 4
#: What tapir says of an output with more than one dimension.
MAP = {"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": '{"shape":[2,2]}'}
OUTPUT_ROWS = 5


def features(cell: bytes) -> list[float]:
    return [float(byte) for byte in hashlib.sha256(cell).digest()[:DIMS]]


def main() -> None:
    how, _, number = os.environ.get("FAKE", "").partition(":")
    once = os.environ.get("FAKE_ONCE")
    if once:
        if os.path.exists(once):
            how = ""
        else:
            open(once, "w").close()
    pids = os.environ.get("FAKE_PIDS")
    if pids:
        with open(pids, "a") as file:
            file.write(f"{os.getpid()}\n")
    if how == "mute":
        # Reads nothing, writes nothing: no end of its input ends it.
        time.sleep(600)
    if how == "usage":
        _exit("error: unknown option '--nonsense'", 2)
    if how == "layer":
        _exit("tapir: no such layer [NAME_NOT_FOUND]", 2)
    if how == "model":
        _exit('tapir: there is no file "m.onnx", and no known model has that name [MODEL_UNREADABLE]', 3)
    if how == "hang" and number == "0":
        time.sleep(600)
    if how == "noise":
        sys.stderr.write("noise\n" * 200_000)
    if how == "warning":
        sys.stderr.write("warning: pixels are assumed\nnote: another line\n")
    if how == "deaf":
        # Closes its input at once, and says why later.
        os.close(0)
        time.sleep(0.3)
        _exit("cannot read any more", 3)
    column = sys.argv[sys.argv.index("--column") + 1]
    output = os.fdopen(1, "wb", closefd=False)
    if how == "garbage" and not number:
        output.write(b"tapir: hello\n" * 100)
        output.flush()
    schema = pa.schema(
        [
            ("tapir_row", pa.int64()),
            ("path", pa.string()),
            ("status", pa.string()),
            ("error_code", pa.string()),
            ("error_message", pa.string()),
            pa.field("embedding", pa.list_(pa.float32(), DIMS), metadata=MAP if how == "map" else None),
        ],
        metadata={"onnx-tapir.version": version} if (version := os.environ.get("FAKE_VERSION", "0.1.0")) else None,
    )
    done = 0
    held: list[tuple] = []

    def write(rows: list[tuple]) -> None:
        writer.write_batch(pa.record_batch([*zip(*rows)], schema=schema))
        output.flush()

    with pa.ipc.new_stream(output, schema) as writer:
        with pa.ipc.open_stream(os.fdopen(0, "rb", closefd=False)) as batches:
            # The columns are known before the first image.
            writer.write_batch(pa.RecordBatch.from_pylist([], schema))
            output.flush()
            for batch in batches:
                for cell, row in zip(batch.column(column).to_pylist(), batch.column("tapir_row").to_pylist()):
                    data = cell.encode() if isinstance(cell, str) else cell
                    path = cell if isinstance(cell, str) else None
                    if how == "crash" and done == int(number):
                        print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
                        os.kill(os.getpid(), signal.SIGKILL)
                    if how == "hang" and done == int(number):
                        time.sleep(600)
                    if how == "stop" and done == int(number):
                        return
                    if how == "swap" and done == int(number):
                        row += 1
                    done += 1
                    if how == "slow":
                        time.sleep(float(number))
                    if data is None:
                        held.append((row, path, "error", "IMAGE_EMPTY", "its record holds null", None))
                    elif b"broken" in data:
                        held.append((row, path, "error", "IMAGE_UNREADABLE", "no image", None))
                    else:
                        held.append((row, path, "ok", None, None, features(data)))
                    # Batches of its own, which begin and end elsewhere than those it is given.
                    while len(held) >= OUTPUT_ROWS:
                        write(held[:OUTPUT_ROWS])
                        del held[:OUTPUT_ROWS]
                # The input pauses: what there is goes out.
                if held:
                    write(held)
                    held.clear()
                if how == "garbage" and number:
                    output.write(b"tapir: hello\n" * 100)
                    output.flush()
                if how == "more":
                    write([(done, None, "ok", None, None, [0.0] * DIMS)])


def _exit(message: str, code: int) -> None:
    print(message, file=sys.stderr, flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
