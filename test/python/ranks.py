"""`tapir train` over two ranks, gloo on the CPU: each result must have the bytes of an undisturbed run. Ranks are killed with -9 at random
moments and started again by torchrun and by Ray; one training is stopped by Ctrl-C at torchrun and started again. Needs Linux, torch, for
--ray also Ray, and a built tapir; see README.md.

    python test/python/ranks.py PHOTOS MODEL [--kills 3] [--ray 2] [--seed 1] [--epochs 6] [--train conv5,fc] [--norms synced]
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "integrations/python"
RANKS = 2
DAY_S = 86_400
ENV = {
    **os.environ,
    "TAPIR": f"node {ROOT}/dist/lib/bin.cjs",
    "PYTHONPATH": str(PACKAGE),
    "PYTHONWARNINGS": "ignore",
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def find_node(out, rank):
    """The number of the Node process of a rank, and of the Python process that has started it; None if it does not run."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[0] != b"node" or os.fsencode(out) not in words:
                continue
            if f"RANK={rank}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name), int((folder / "stat").read_text().rsplit(") ", 1)[1].split()[1])
        except (OSError, IndexError):  # it has ended
            continue
    return None


class Killer(threading.Thread):
    """Kills one process of a rank so many seconds after the rank's start."""

    def __init__(self, out, rank, which, after_s):
        super().__init__(daemon=True)
        self._out, self._rank, self._which, self._after_s = out, rank, which, after_s
        self._over = threading.Event()
        self.began, self.story = time.monotonic(), None

    def run(self):
        while (found := find_node(self._out, self._rank)) is None:
            if self._over.wait(0.02):
                return
        self.began = time.monotonic()
        if self._over.wait(self._after_s):
            return
        found = find_node(self._out, self._rank)
        has_checkpoint = Path(f"{self._out}.training/checkpoint.json").exists()
        if found is not None:
            os.kill(found[self._which == "Python"], signal.SIGKILL)
            start = "with a checkpoint" if has_checkpoint else "before the first checkpoint"
            self.story = f"rank {self._rank}, its {self._which}, {self._after_s:.1f} s after its start, {start}"

    def end(self):
        """What it has killed, and the seconds since the rank's start."""
        self._over.set()
        self.join()
        return self.story, time.monotonic() - self.began


def torchrun(job, out, restarts=0):
    return [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--max-restarts", str(restarts),
        "-m", "onnx_tapir.train", job.photos, "--model", job.model, "--out", out, *job.flags,
    ]  # fmt: skip


def train_torchrun(job, out, restarts=3):
    done = subprocess.run(torchrun(job, out, restarts), env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"torchrun has ended with {done.returncode}\n{done.stdout}")


def train_ray(job, out):
    from onnx_tapir.ray import train

    env = {"OMP_NUM_THREADS": "1"}
    train(job.photos, model=job.model, out=out, num_workers=RANKS, flags=job.flags, tapir=ENV["TAPIR"].split(), env=env)


class Bytes:
    """The bytes that a training is to give, and how many results have others."""

    def __init__(self, whole):
        self._whole = Path(whole).read_bytes()
        self.wrong = 0

    def compare(self, what, out):
        is_same = Path(out).is_file() and Path(out).read_bytes() == self._whole
        self.wrong += not is_same
        print(f"{what}: {'the same bytes' if is_same else 'OTHER BYTES'}", flush=True)


def kill_often(job, name, train, count, length_s, drawn, expected):
    tries = 0
    while count > 0:
        tries += 1
        out = f"{job.work}/{name}{tries}.onnx"
        killer = Killer(out, drawn.randrange(RANKS), drawn.choice(["Node", "Python"]), drawn.uniform(0, length_s))
        killer.start()
        try:
            train(job, out)
            trouble = ""
        except Exception as error:
            trouble = f"; FAILED: {error}"
        story, taken_s = killer.end()
        if story is None and not trouble:
            length_s = min(length_s, taken_s)
            print(f"{name}: had ended before the kill; drawn again", flush=True)
            continue
        expected.compare(f"{name}, killed {story}{trouble}", out)
        expected.wrong += trouble != ""
        count -= 1


def stop(job, expected):
    """Ctrl-C at torchrun, and the same command again."""
    out = f"{job.work}/stop.onnx"
    running = subprocess.Popen(torchrun(job, out), env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not Path(f"{out}.training/checkpoint.json").exists():
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    code = running.wait()
    train_torchrun(job, out)
    expected.compare(f"stopped by Ctrl-C, torchrun ended with {code}", out)


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("model")
    for name, default in (("kills", 3), ("ray", 2), ("seed", 1), ("epochs", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--train", default="conv5,fc")
    parser.add_argument("--norms", default="synced")
    job = parser.parse_args()
    job.photos, job.model = (str(Path(path).resolve()) for path in (job.photos, job.model))
    job.flags = ["--epochs", str(job.epochs), "--batch", "4", "--transform", '{"resize":64,"crop":64}', "--train", job.train]
    for setting in (f"batchNorm={job.norms}", "seed=1", "decodeThreads=1"):
        job.flags += ["--set", setting]
    return job


def main():
    job = read_arguments()
    with tempfile.TemporaryDirectory() as job.work:
        whole = f"{job.work}/whole.onnx"
        watch = Killer(whole, 0, "Node", DAY_S)
        watch.start()
        train_torchrun(job, whole, 0)
        _, length_s = watch.end()
        print(f"undisturbed: {length_s:.1f} s; moments of seed {job.seed}", flush=True)
        expected = Bytes(whole)
        kill_often(job, "torchrun", train_torchrun, job.kills, length_s, random.Random(job.seed), expected)
        stop(job, expected)
        if job.ray > 0:
            os.environ.update(ENV, RAY_TMPDIR=job.work)
            sys.path.insert(0, str(PACKAGE))
            import ray

            ray.init(num_cpus=RANKS, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
            kill_often(job, "Ray", train_ray, job.ray, length_s, random.Random(job.seed + 1), expected)
            ray.shutdown()
    sys.exit(1 if expected.wrong else 0)


if __name__ == "__main__":
    main()
