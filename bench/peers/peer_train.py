"""torch: a training loop in plain float32 on the CPU, as tutorials write it, with no_grad for what is frozen.

python peer_train.py CASE THREADS. A line on standard input is a step; its answer is a line of JSON: {"seconds", "cpuSeconds", "loss"}.
At the end of the input: {"rssMb"}, the peak.
"""
import json
import resource
import sys
import time

import torch
import torchvision
from torch.nn.functional import cross_entropy

ROWS, SIZE, CLASSES = {'head': (16, 224, 1000), 'layer4': (16, 224, 1000), 'whole': (8, 64, 1000)}[sys.argv[1]]
# Modules that are trained; the rest is frozen.
TRAINED = {'head': ('fc',), 'layer4': ('layer4', 'fc'), 'whole': None}[sys.argv[1]]


def build():
    """The network as what is frozen, and what is trained; BatchNorm has batch statistics in a whole network alone."""
    torch.manual_seed(0)
    if TRAINED is None:
        return None, torchvision.models.resnet18(weights=None).train()
    network = torchvision.models.resnet50(weights=None).eval()
    parts = [(name, module) for name, module in network.named_children()]
    first = [name for name, _ in parts].index(TRAINED[0])
    split = [*parts[:first]], [*parts[first:]]
    frozen, trained = (torch.nn.Sequential(*(module for _, module in half)) for half in split)
    # torchvision's forward flattens in front of the classifier.
    position = len(trained) - 1
    return frozen, torch.nn.Sequential(*trained[:position], torch.nn.Flatten(), trained[position])


def main():
    torch.set_num_threads(int(sys.argv[2]))
    frozen, trained = build()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.001, momentum=0.9)
    inputs = torch.sin(torch.arange(ROWS * 3 * SIZE * SIZE, dtype=torch.float32)).reshape(ROWS, 3, SIZE, SIZE)
    labels = torch.arange(ROWS) % CLASSES
    for _ in sys.stdin:
        started, used = time.perf_counter(), time.process_time()
        features = inputs
        if frozen is not None:
            with torch.no_grad():
                features = frozen(inputs)
        loss = cross_entropy(trained(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken = {'seconds': time.perf_counter() - started, 'cpuSeconds': time.process_time() - used}
        print(json.dumps({**taken, 'loss': loss.item()}), flush=True)
    print(json.dumps({'rssMb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}), flush=True)


main()
