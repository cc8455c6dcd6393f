"""Prints, as JSON, the versions of what the peers in Python need, and what failed to import."""
import importlib
import json
import platform

found, failed = {'python': platform.python_version()}, {}
for name in ('numpy', 'PIL', 'onnx', 'onnxruntime', 'torch', 'torchvision'):
    try:
        importlib.import_module('torchvision_here' if name == 'torchvision' else name)
        found[name] = importlib.import_module(name).__version__
    except Exception as error:  # whatever is wrong with it, the peer is left out with this reason
        failed[name] = f'{type(error).__name__}: {error}'
print(json.dumps({'found': found, 'failed': failed}))
