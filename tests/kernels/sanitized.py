"""Random calls of the compiled module under AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`.

It builds the module with sanitizers into build/sanitized and calls every exported function, validly and wrongly, with
every instruction set of this processor (tests/support/kernel_calls.py). It fails at the first report of a sanitizer,
result that differs from the definition, or wrong call that is not refused. Needs GCC, on Linux.

One call again: `python tests/kernels/sanitized.py --isa avx2 --first 1234 --calls 1`.
"""

import argparse
import ctypes
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOUSE = Path(__file__).parents[2]
NATIVE, BUILD = HOUSE / "src/eda/native", HOUSE / "build/sanitized"
SETS = {"avx512": 16, "avx2": 8, "baseline": 4}  # floats in a register
# The assertions of the standard library find indices outside of a vector. Tracking variables would take minutes.
FLAGS = (
    "-std=c++17", "-O1", "-g", "-fno-var-tracking", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-D_GLIBCXX_ASSERTIONS",
    "-fPIC", "-pthread", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi",
)  # fmt: skip
COMPILER = os.environ.get("CXX", "g++")


def build() -> None:
    """Compile what is older than the sources."""
    BUILD.mkdir(parents=True, exist_ok=True)
    included = max(path.stat().st_mtime for path in NATIVE.iterdir() if path.suffix in (".h", ".inc"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda source: _compiled(source, included), sorted(NATIVE.glob("*.cpp"))))
    subprocess.run([COMPILER, *FLAGS, "-shared", *objects, "-o", BUILD / "_core.so"], check=True)


def _compiled(source: Path, included: float) -> Path:
    into = BUILD / f"{source.stem}.o"
    if not into.exists() or into.stat().st_mtime < max(included, source.stat().st_mtime):
        part = into.with_suffix(".part.o")
        subprocess.run([COMPILER, *FLAGS, "-c", source, "-o", part], check=True)
        part.rename(into)
    return into


def run_under_sanitizers(isa: str, first: int, calls: int) -> bool:
    """Make the calls in a process of their own. -> whether all went well."""
    # The library of C++ as well: the sanitizer looks for its exceptions when the process starts.
    find = [COMPILER, "-print-file-name=libasan.so", "-print-file-name=libstdc++.so"]
    found = [subprocess.run([find[0], name], capture_output=True, text=True, check=True).stdout for name in find[1:]]
    environment = {
        **os.environ,
        "EDA_ISA": isa,
        "LD_PRELOAD": " ".join(path.strip() for path in found),
        "ASAN_OPTIONS": "detect_leaks=0",  # those of Python and torch
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": f"{HOUSE / 'src'}:{HOUSE / 'tests'}",
    }
    words = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--make-calls",
        "--isa",
        isa,
        "--first",
        str(first),
        "--calls",
        str(calls),
    ]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode:
        print(f"{isa}: FAILED at {lines[-1] if lines else 'the start'}\n{done.stderr}")
        return False
    print(f"{isa}: {lines[-1]}", flush=True)
    return True


def make_calls(isa: str, first: int, calls: int) -> None:
    """Inside of the process with the sanitizers: every call is announced before it is made."""
    import numpy as np
    import torch

    import eda.native
    from eda.kernels import attention_compiled, nearest, pointwise_compiled

    eda.native.__file__ = str(BUILD / "__init__.py")  # where the module is looked for
    if eda.native.library().eda_lanes(4) != SETS[isa]:
        print("this processor does not have it")
        return
    from support.kernel_calls import random_call, raw_functions

    for module in (attention_compiled, pointwise_compiled, nearest):
        module._WORK_PER_THREAD = 1  # threads also for small work
    team = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    outcomes = Counter(_check_raw_functions(raw_functions()))
    for seed in range(first, first + calls):
        rng = np.random.default_rng(seed)
        torch.set_num_threads(int(rng.choice([1, 2, 3, 7])))
        lent = ctypes.cast(team, ctypes.c_void_p) if team and rng.random() < 0.5 else None  # or threads of its own
        eda.native.library().eda_lend_team(lent)
        call = random_call(rng)
        call, kind = (call, "valid") if rng.random() < 0.5 else (call.spoiled(rng), "wrong")
        print(f"call {seed}: {kind} {call.name}", flush=True)
        outcome = call.check()
        assert outcome == "equal" or (kind, outcome) == ("wrong", "refused"), outcome
        outcomes[f"{kind}, {outcome}"] += 1
    print(f"{outcomes.total()} calls:", "; ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))


def _check_raw_functions(functions: list) -> Counter[str]:
    """Calls of the C interface: valid sizes, and each size wrong in turn."""
    from eda.native import MISFIT

    outcomes: Counter[str] = Counter()
    for function in functions:
        print(f"call of {function.name}", flush=True)
        assert function.result() == 0, "valid sizes were refused"
        outcomes["plain C, valid"] += 1
        for size, values in function.wrong.items():
            for value in values:
                print(f"call of {function.name} with {size}={value}", flush=True)
                assert function.result(**{size: value}) == MISFIT, "a wrong size was not refused"
                outcomes["plain C, refused"] += 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="of every instruction set")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first call; the others count on from it")
    parser.add_argument("--isa", choices=SETS, help="one instruction set alone")
    parser.add_argument("--make-calls", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make_calls:
        make_calls(given.isa, given.first, given.calls)
        return 0
    build()
    sets = [given.isa] if given.isa else SETS
    return 0 if all([run_under_sanitizers(isa, given.first, given.calls) for isa in sets]) else 1


if __name__ == "__main__":
    sys.exit(main())
