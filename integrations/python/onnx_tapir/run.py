"""A program of Node over ranks, which calls ``joinGroup()``: ``torchrun --nproc-per-node 4 -m onnx_tapir.run train.mjs``."""

import os
import shlex
import sys

from .rank import main

if __name__ == "__main__":
    main([*shlex.split(os.environ.get("NODE", "node")), *sys.argv[1:]])
