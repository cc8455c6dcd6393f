"""torchvision, also where its compiled operators do not load (built for another torch): its models and its transforms of PIL images
need none of them, but its import registers shapes for nms and fails if there is no such operator."""
import sys

import torch

try:
    import torchvision
except (ImportError, OSError, RuntimeError):
    for name in [name for name in sys.modules if name.split('.')[0] == 'torchvision']:
        del sys.modules[name]
    operators = torch.library.Library('torchvision', 'FRAGMENT')
    for name in ('nms', 'qnms'):
        try:
            operators.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
        except RuntimeError:
            pass
    import torchvision

__all__ = ['torch', 'torchvision']
