"""How much longer an assembly takes beside other work: `python benchmarks/busy.py` on a machine that is otherwise idle.

Two pieces are assembled with as many threads as there are cores, first alone and then beside as many busy processes as
there are cores, where half of the time would be fair. torch is imported before eda, as in a user's own program: how
threads wait can then no longer be set through the environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

ASSEMBLE = """
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
from eda.assembly import AssembleConfig, assemble
from eda.data import open_examples
example = next(iter(open_examples("fracture:puzzles=1,seed=4103,num_points=4000,shapes=held_out,pieces=2-2")))
clouds, normals, config = example.clouds(), example.clouds(example.normals), AssembleConfig(samples=8)
for _ in range(2):  # the first one also loads the model
    begin = time.perf_counter()
    assemble(clouds, normals, model="fracture-small", config=config)
print(time.perf_counter() - begin)
"""


def seconds(threads: int, busy: int) -> float:
    """Wall time of an assembly with this many threads beside so many busy processes."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        command = [sys.executable, "-c", ASSEMBLE, str(threads)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="of every measurement; the median is taken")
    repeats, cores = parser.parse_args().repeats, len(os.sched_getaffinity(0))
    print("| threads | alone [s] | beside busy processes [s] | ratio |\n|---|---|---|---|")
    for threads in (1, cores):
        alone, beside = (sorted(seconds(threads, busy) for _ in range(repeats))[repeats // 2] for busy in (0, cores))
        print(f"| {threads} | {alone:.2f} | {beside:.2f} | {beside / alone:.1f} |", flush=True)


if __name__ == "__main__":
    main()
