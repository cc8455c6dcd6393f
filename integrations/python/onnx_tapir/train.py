"""``tapir train`` over ranks: ``torchrun --nproc-per-node 4 -m onnx_tapir.train photos --model resnet50.onnx --out tuned.onnx``.

The arguments are those of ``tapir train``. ``TAPIR`` in the environment is another command than ``tapir``.
"""

import os
import shlex
import sys

from .rank import main

if __name__ == "__main__":
    # 1: done, and some photos could not be read.
    main([*shlex.split(os.environ.get("TAPIR", "tapir")), "train", *sys.argv[1:]], left_out_code=1)
