"""Compares tapir with the two Python extractors on a folder of graphs with requests.

    python test/python/differential.py FOLDER > differential.md

FOLDER holds index.json and the ONNX files it lists (see test/python/README.md). Every request goes through
onnx.utils.extract_model, onnx_ir.convenience.extract and tapir; each result is loaded in onnxruntime and its values are
compared, bit for bit, with those of the complete graph. Prints Markdown.

Needs numpy, onnx, onnx-ir, onnxruntime, Node, and a built tapir.
"""

import argparse
import collections
import json
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

TIMEOUT_S = 60
OUTCOMES = ["right", "wrong", "does not load", "error", "refused", "crash"]

# One job a line in, one answer a line out; a TapirError is a refusal.
TAPIR_WORKER = """
import { createInterface } from 'node:readline';
const { pruneModel, isTapirError } = await import(process.argv[1]);
for await (const line of createInterface({ input: process.stdin })) {
  const { model, out, request } = JSON.parse(line);
  let answer = {};
  try {
    const options = { keepTensorNames: true, allowNonTensor: true };
    await (await pruneModel(model, request.map((name) => 'tensor:' + name), options)).save(out);
  } catch (error) {
    answer = isTapirError(error) ? { refused: error.code + ': ' + error.message } : { error: String(error) };
  }
  console.log(JSON.stringify(answer));
}
"""


# What runs in child processes: any of it may crash


def extract_with_onnx(job):
    import onnx.utils

    # It takes no empty list of inputs: a constant is asked for with all of them.
    inputs = job["inputs"] or list(job["feeds"])
    onnx.utils.extract_model(job["model"], job["out"], inputs, job["request"], check_model=job["check"])


def extract_with_onnx_ir(job):
    import onnx_ir

    model = onnx_ir.load(job["model"])
    graph = onnx_ir.convenience.extract(model.graph, job["inputs"], job["request"])
    functions = list(model.functions.values())
    onnx_ir.save(onnx_ir.Model(graph, ir_version=model.ir_version, functions=functions), job["out"])


def run_graph(model, feeds, names):
    """The named outputs of an ONNX file, computed as written: without optimisation, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {entry.name for entry in session.get_inputs() + session.get_overridable_initializers()}
    return session.run(names, {name: value for name, value in feeds.items() if name in wanted})


def same(a, b):
    """Equal bit for bit; sequences item by item; NaN equals NaN."""
    import numpy

    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, numpy.ndarray):
        return a == b
    if not isinstance(b, numpy.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() if a.dtype.kind != "O" else bool((a == b).all())


reference = {}  # values of complete graphs, of one model at a time


def values_of_complete_graph(job):
    import onnx

    if reference.get("model") != job["model"]:
        reference.clear()
        reference["model"] = job["model"]
    full = pathlib.Path(job["model"]).with_suffix(".complete.onnx")  # beside it, for external data
    for name in job["request"]:
        if name not in reference:
            model = onnx.load(job["model"], load_external_data=False)
            if name not in [output.name for output in model.graph.output]:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
            full.write_bytes(model.SerializeToString())
            reference[name] = run_graph(str(full), feeds_of(job), [name])[0]
            full.unlink()
    return [reference[name] for name in job["request"]]


def feeds_of(job):
    import numpy

    def read(file):
        if file.endswith(".npy"):
            return numpy.load(file)
        strings = json.loads(pathlib.Path(file).read_text())
        return numpy.array(strings["data"], dtype=object).reshape(strings["shape"])

    return {name: read(file) for name, file in job["feeds"].items()}


def judge(job):
    expected = values_of_complete_graph(job)
    try:
        found = run_graph(job["out"], feeds_of(job), job["request"])
    except Exception as error:
        return {"does not load": str(error)}
    wrong = [name for name, a, b in zip(job["request"], expected, found) if not same(a, b)]
    return {"wrong": f"value of {', '.join(wrong)}"} if wrong else {"right": ""}


def work(task):
    """Serves one of the functions above: a job a line in, an answer a line out."""
    do = {"onnx": extract_with_onnx, "onnx_ir": extract_with_onnx_ir, "judge": judge}[task]
    for line in sys.stdin:
        try:
            answer = do(json.loads(line)) or {}
        except (Exception, RecursionError) as error:
            while error.__cause__ is not None:
                error = error.__cause__
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


class Worker:
    """A child process that is started again after a crash or a timeout."""

    def __init__(self, command):
        self.command = command
        self.process = None

    def ask(self, job):
        if self.process is None:
            pipe = subprocess.PIPE
            # Unbuffered, so that select sees every line that was not read.
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        while select.select([self.process.stdout], [], [], TIMEOUT_S)[0]:
            line = self.process.stdout.readline()
            if not line:
                return {"crash": f"ended with {name_of(self.close())}"}
            if line.startswith(b"{"):  # libraries may print, too
                return json.loads(line)
        self.close()
        return {"crash": f"no answer within {TIMEOUT_S} s"}

    def close(self):
        process, self.process = self.process, None
        if process is None:
            return 0
        process.stdin.close()
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def name_of(status):
    return signal.Signals(-status).name if status < 0 else f"status {status}"


# Requests and results


def jobs_of(folder):
    """Every request of the index, with the graph's name."""
    for entry in json.loads((folder / "index.json").read_text()):
        feeds = {given["name"]: str(folder / given["file"]) for given in entry.get("inputs", [])}
        model = folder / entry["file"]
        for tap in entry.get("taps", []):
            yield entry["name"], {
                "model": str(model),
                "out": str(model.with_suffix(".cut.onnx")),
                "request": tap["request"],
                "inputs": tap["inputs"],
                "feeds": feeds,
            }


def compare(folder, tapir):
    """By extractor and graph: the outcome of each request with its reason."""
    me = [sys.executable, __file__, "--work"]
    extractors = {
        "onnx.utils": Worker([*me, "onnx"]),
        "onnx.utils, check_model=False": Worker([*me, "onnx"]),
        "onnx_ir": Worker([*me, "onnx_ir"]),
        "tapir": Worker(["node", "--input-type=module", "--eval", TAPIR_WORKER, str(tapir)]),
    }
    judges = Worker([*me, "judge"])
    results = {extractor: collections.defaultdict(list) for extractor in extractors}
    for graph, job in jobs_of(folder):
        for extractor, worker in extractors.items():
            pathlib.Path(job["out"]).unlink(missing_ok=True)
            answer = worker.ask({**job, "check": "check_model" not in extractor}) or judges.ask(job)
            results[extractor][graph].append(next(iter(answer.items())))
    for worker in [*extractors.values(), judges]:
        worker.close()
    return results


def short(reason):
    """A reason in one table cell."""
    words = " ".join(re.sub(r"/\S*/", "", reason).replace("|", "/").split())  # without the folders of this run
    return words if len(words) <= 110 else words[:107] + "..."


def report(results):
    print(f"| extractor | {' | '.join(OUTCOMES)} | requests |")
    print("| --- |" + " ---: |" * (len(OUTCOMES) + 1))
    for extractor, graphs in results.items():
        counts = collections.Counter(outcome for answers in graphs.values() for outcome, _ in answers)
        print(f"| {extractor} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} | {sum(counts.values())} |")
    print("\nGraphs on which not every extractor is right, each with its first reason:\n")
    print(f"| graph | {' | '.join(results)} | reasons |")
    print("| --- |" + " --- |" * (len(results) + 1))
    for graph in next(iter(results.values())):
        cells, reasons = [], []
        for extractor, graphs in results.items():
            answers = graphs[graph]
            counts = collections.Counter(outcome for outcome, _ in answers)
            cells.append(", ".join(f"{outcome} {count}" for outcome, count in counts.items()))
            whys = [short(why) for outcome, why in answers if outcome != "right"]
            if whys:
                others = f" (and {len(whys) - 1} more)" if len(whys) > 1 else ""
                reasons.append(f"{extractor}: {whys[0]}{others}")
        if reasons:
            print(f"| {graph} | {' | '.join(cells)} | {'<br>'.join(reasons)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="folder with index.json")
    built = pathlib.Path(__file__).resolve().parents[2] / "dist" / "lib" / "index.js"
    parser.add_argument("--tapir", type=pathlib.Path, default=built, help="built index.js (default: %(default)s)")
    parser.add_argument("--work", choices=["onnx", "onnx_ir", "judge"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work)
    if args.folder is None:
        parser.error("which folder?")
    with tempfile.TemporaryDirectory() as copy:
        # Files are written beside the models, where their external weights are; so work on a copy.
        folder = pathlib.Path(copy) / "graphs"
        shutil.copytree(args.folder, folder)
        report(compare(folder, args.tapir.resolve()))


if __name__ == "__main__":
    sys.exit(main())
