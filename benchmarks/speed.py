"""How fast Eda is on the CPU, compiled and reference, side by side in one process.

    python benchmarks/speed.py [--sizes 2x1000,4x2000] [--reference-limit 10000] [--growth 1000,...] [--json]

Seconds are CPU seconds on one thread, the least of a few runs, so that a busy machine flatters nobody; "2 threads" are
wall seconds. Memory is the peak of a process of its own, above what it held with everything imported. The network has
the paper's configuration, untrained. `once` has the encoder without time, which runs once per puzzle; `paper` has tau
in the encoder, which runs once per distinct tau.
"""

import argparse
import contextlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from eda import Eda, EdaConfig, NetworkConfig, Pieces, kernels
from eda.flow import sample_noise
from eda.kernels import Edges, attention_compiled, attention_reference
from eda.nn.chunks import CHUNK

SIZES = "2x1000,4x2000,8x1000,2x5000,8x5000,2x20000"
RADIAL = torch.randn(16, 5, 64, generator=torch.Generator().manual_seed(0))
GROWTH = "1000,4000,16000,64000,200000"


def surface_pieces(count: int, points: int) -> Pieces:
    """Ellipsoids with normals: clouds as dense as a scan of a surface."""
    rng = np.random.default_rng(0)
    clouds, normals = [], []
    for _ in range(count):
        direction = rng.normal(size=(points, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        axes = rng.uniform(0.5, 1.0, size=3)
        clouds.append(direction * axes)
        normals.append(direction / axes)
    return Pieces.from_clouds(clouds, normals)


def seconds(
    work: Callable[[], object],
    budget: float = 1.5,
    clock: Callable[[], float] = time.process_time,
    warm_up: bool = True,
) -> float:
    """The least time of one run, until the budget is spent; the first one does not count if it is to warm up."""
    if warm_up:
        work()
    best, spent = float("inf"), 0.0
    while spent < budget:
        start = clock()
        work()
        spent += max(clock() - start, 1e-6)
        best = min(best, clock() - start)
    return best


class Case:
    """A puzzle of one size with both networks."""

    def __init__(self, count: int, points: int) -> None:
        self.pieces = surface_pieces(count, points)
        self.once = Eda(EdaConfig(NetworkConfig(time_in_encoder=False)))
        self.paper = Eda(EdaConfig(NetworkConfig(time_in_encoder=True)))
        self.pyramid = self.once.pyramid(self.pieces)
        self.poses = sample_noise(self.pieces, 0.4, generator=torch.Generator().manual_seed(0))[0]
        self.tau = torch.full((1,), 0.3)

    @torch.no_grad()
    def forward(self) -> None:
        self.once.network(self.pyramid, self.poses, self.tau)

    def forward_backward(self) -> None:
        self.once.zero_grad()
        self.once.network(self.pyramid, self.poses, self.tau).square().sum().backward()

    def sample(self, model: Eda, solver: str, steps: int, samples: int = 1) -> None:
        model.sample(self.pieces, samples, solver=solver, steps=steps, generator=torch.Generator().manual_seed(0))


def measure(count: int, points: int, with_reference: bool) -> dict[str, float]:
    """All the figures of one size."""
    torch.set_num_threads(1)
    case = Case(count, points)
    row = {"graph": seconds(lambda: case.once.pyramid(case.pieces), 1.0)}
    for name, work in {"forward": case.forward, "forward+backward": case.forward_backward}.items():
        row[name] = seconds(work)
        if with_reference:
            with kernels.reference_only():
                row[f"{name}, reference"] = seconds(work)
            row[name] = min(row[name], seconds(work))
    row["rk1 x 10, once"] = seconds(lambda: case.sample(case.once, "rk1", 10), warm_up=False)
    row["rk1 x 10, paper"] = seconds(lambda: case.sample(case.paper, "rk1", 10), warm_up=False)
    row["rk4 x 10, once"] = seconds(lambda: case.sample(case.once, "rk4", 10), warm_up=False)
    row["rk4 x 10, paper"] = seconds(lambda: case.sample(case.paper, "rk4", 10), warm_up=False)
    row["rk4 x 50, once"] = seconds(lambda: case.sample(case.once, "rk4", 50), warm_up=False)
    row["32 samples, rk4 x 20, once"] = seconds(lambda: case.sample(case.once, "rk4", 20, 32), warm_up=False)
    row |= _wall_seconds(case)
    for kind in ("forward", "forward+backward"):
        row[f"MB, {kind}"] = _memory_of_child(count, points, kind)
    return row


def _wall_seconds(case: Case, rounds: int = 3) -> dict[str, float]:
    """One thread and two in turns, so that a slow minute of the machine does not hit one of them alone."""
    row: dict[str, float] = {}
    for threads in (1, 2) * rounds:
        torch.set_num_threads(threads)
        for kind, work in {"forward": case.forward, "forward+backward": case.forward_backward}.items():
            name = f"{kind}, wall, {threads} threads"
            row[name] = min(row.get(name, float("inf")), seconds(work, 0.7, time.perf_counter))
    torch.set_num_threads(1)
    return row


def operator_figures(receivers: int = 2000, neighbors: int = 10) -> dict[str, float]:
    """The operator alone, in microseconds an edge, compiled and reference in turns."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    features, queries, key, value = (
        torch.randn(*shape, generator=generator).requires_grad_()
        for shape in [(4 * receivers, 9, 64), (receivers, 9, 3, 64), (16, 5, 64), (16, 5, 64)]
    )
    near = torch.randint(0, 40, (receivers, neighbors), generator=generator)
    edges = Edges(
        (4 * torch.arange(receivers)[:, None] + near) % len(features),
        torch.randn(receivers, neighbors, 3, generator=generator),
    )

    def compiled() -> torch.Tensor:
        return attention_compiled.edge_attention(features, queries, edges.vectors, edges.neighbors, key, value, 4)[0]

    def plain() -> torch.Tensor:
        return attention_reference.edge_attention(features, queries, edges, key, value, 4)

    row = {}
    for name, run in {"compiled": compiled, "reference": plain, "compiled again": compiled}.items():
        with torch.no_grad():
            row[f"forward, {name}"] = seconds(run) / (receivers * neighbors) * 1e6
        row[f"forward+backward, {name}"] = (
            seconds(lambda run=run: run().sum().backward()) / (receivers * neighbors) * 1e6
        )
    return row


def growth_figures(sizes: list[int]) -> dict[str, dict[str, float]]:
    """How the cost of two pieces grows with their points: the whole (pyramid and forward) and the first level alone.

    "operator" is called on some receivers at a time, as the network does. "operator, one call" makes one result for
    all, at 200,000 points hundreds of megabytes, and the system's handing them out page by page is counted with it.
    """
    torch.set_num_threads(1)
    rows = {}
    for points in sizes:
        case = Case(2, points // 2)
        level = case.pyramid.levels[0]
        edges = Edges.between(level.points, case.pyramid.pieces.points, level.down, 0.03)
        features, queries = torch.randn(points, 9, 64), torch.randn(len(level.points), 9, 3, 64)

        def attend(size: int, e: Edges = edges, f: torch.Tensor = features, q: torch.Tensor = queries) -> None:
            for start in range(0, len(q), size):
                some = slice(start, start + size)
                kernels.edge_attention(f, q[some], e[some], RADIAL, RADIAL, 4)

        with torch.no_grad():
            rows[str(points)] = {
                "operator": seconds(lambda a=attend: a(CHUNK), 1.0),
                "operator, one call": seconds(lambda a=attend, n=points: a(n), 1.0),
                "graph": seconds(lambda c=case: c.once.pyramid(c.pieces), 1.0),
                "forward": seconds(case.forward, 1.0),
            }
    return rows


def slope(rows: dict[str, dict[str, float]], columns: tuple[str, ...]) -> float:
    """The exponent of the growth, by least squares on logarithms."""
    sizes = np.log([float(size) for size in rows])
    costs = np.log([sum(row[column] for column in columns) for row in rows.values()])
    return float(np.polyfit(sizes, costs, 1)[0])


def _memory_of_child(count: int, points: int, kind: str) -> float:
    command = [sys.executable, __file__, "--memory", f"{count}x{points}", kind]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _print_memory(size: str, kind: str) -> None:
    """In a process of its own: the peak above what stood after a tiny run of the same kind."""
    torch.set_num_threads(1)
    work = {"forward": Case.forward, "forward+backward": Case.forward_backward}[kind]
    work(Case(2, 50))
    before = _peak_megabytes()
    work(Case(*_parsed(size)))
    print(_peak_megabytes() - before)


def _peak_megabytes() -> float:
    """Of this process alone: getrusage would begin with the parent's."""
    with open("/proc/self/status") as file:
        return next(float(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def _parsed(size: str) -> tuple[int, int]:
    count, points = size.split("x")
    return int(count), int(points)


def _table(rows: dict[str, dict[str, float]]) -> str:
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = ["| | " + " | ".join(rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for column in columns:
        cells = [f"{row[column]:.3g}" if column in row else "" for row in rows.values()]
        lines.append(f"| {column} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--reference-limit", type=int, default=10_000, help="points up to which the reference is run")
    parser.add_argument("--growth", default=GROWTH)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory", nargs=2, metavar=("SIZE", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        _print_memory(*options.memory)
        return
    machine = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "processor": _processor()}
    operator = operator_figures()
    rows = {}
    for size in filter(None, options.sizes.split(",")):
        count, points = _parsed(size)
        rows[size] = measure(count, points, count * points <= options.reference_limit)
        print(f"{size} done", file=sys.stderr)
    growth = growth_figures([int(points) for points in filter(None, options.growth.split(","))])
    slopes = {}
    if len(growth) > 1:
        slopes = {
            "operator": slope(growth, ("operator",)),
            "operator, one call": slope(growth, ("operator, one call",)),
            "graph and forward": slope(growth, ("graph", "forward")),
        }
    if options.json:
        print(
            json.dumps({**machine, "operator": operator, "sizes": rows, "growth": growth, "slopes": slopes}, indent=2)
        )
        return
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print("\n## The operator, microseconds an edge\n\n" + _table({"": operator}))
    print("\n## Pieces x points, seconds\n\n" + _table(rows))
    print("\n## Growth with the number of points, seconds\n\n" + _table(growth))
    print("\nLog-log slopes: " + ", ".join(f"{name} {value:.2f}" for name, value in slopes.items()))


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
