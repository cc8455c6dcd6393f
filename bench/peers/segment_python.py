"""torchvision's deeplabv3_resnet50, one run per line of standard input: prints the seconds of each, after a line about itself.

python segment_python.py FOLDER SIDE THREADS
"""
import json
import os
import sys
import time

import numpy as np
from torchvision_here import torch, torchvision

folder, side, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
torch.manual_seed(0)
model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21).eval()
torch.save(model.state_dict(), os.path.join(folder, 'weights.pth'))
x = torch.randn(1, 3, side, side)
x.numpy().tofile(os.path.join(folder, 'input.f32'))
with torch.inference_mode():
    model(x)['out'].numpy().astype(np.float32).tofile(os.path.join(folder, 'output.f32'))
    print(json.dumps({'torch': torch.__version__, 'torchvision': torchvision.__version__}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model(x)
        print(json.dumps({'seconds': time.perf_counter() - start}), flush=True)
