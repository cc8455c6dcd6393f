"""Compares distributedSampler with torch.utils.data.DistributedSampler on random cases. See README.md."""

import json
import random
import subprocess
import sys

import torch
from torch.utils.data import DistributedSampler

CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 500
SCRIPT = """
import { distributedSampler } from 'onnx-tapir';
import { readFileSync } from 'node:fs';
const cases = JSON.parse(readFileSync(0, 'utf8'));
const ask = ({ n, ...rest }) => [...distributedSampler(n, { ...rest, pad: 'torch' })];
process.stdout.write(JSON.stringify(cases.map(ask)));
"""


def make_case(random: random.Random) -> dict:
    world = random.randint(1, 9)
    return {
        "n": random.choice([random.randint(0, 20), random.randint(0, 3000), 70_000]),
        "worldSize": world,
        "rank": random.randrange(world),
        "shuffle": random.random() < 0.8,
        "seed": random.choice([0, 1, random.randrange(2**32)]),
        "epoch": random.randrange(100),
        "dropLast": random.random() < 0.5,
    }


def ask_torch(case: dict) -> list[int]:
    sampler = DistributedSampler(
        range(case["n"]),
        num_replicas=case["worldSize"],
        rank=case["rank"],
        shuffle=case["shuffle"],
        seed=case["seed"],
        drop_last=case["dropLast"],
    )
    sampler.set_epoch(case["epoch"])
    return list(sampler)


cases = [make_case(random.Random(seed)) for seed in range(CASES)]
answer = subprocess.run(
    ["node", "--input-type=module", "--eval", SCRIPT],
    input=json.dumps(cases),
    capture_output=True,
    text=True,
    check=True,
)
different = [case for case, ours in zip(cases, json.loads(answer.stdout), strict=True) if ours != ask_torch(case)]
print(f"torch {torch.__version__}: {CASES - len(different)} of {CASES} cases are equal")
for case in different[:10]:
    print(case)
sys.exit(1 if different else 0)
