"""Prints, as JSON, the versions of what the peers in Python need, what failed to import, and where OpenVINO's libraries are."""
import importlib
import json
import os
import platform

found, failed = {'python': platform.python_version()}, {}
for name in ('numpy', 'PIL', 'onnx', 'onnxruntime', 'openvino', 'torch', 'torchvision', 'transformers'):
    try:
        importlib.import_module('torchvision_here' if name == 'torchvision' else name)
        found[name] = importlib.import_module(name).__version__
    except Exception as error:  # whatever is wrong with it, the peer is left out with this reason
        failed[name] = f'{type(error).__name__}: {error}'
libraries = None
if 'openvino' in found:
    libraries = os.path.join(os.path.dirname(importlib.import_module('openvino').__file__), 'libs')
print(json.dumps({'found': found, 'failed': failed, 'openvinoLibs': libraries}))
