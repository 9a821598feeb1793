"""For tests of reports: poses, alternatives, a report of lumpy pieces, and the data of a written page."""

import base64
import json
import re
from collections.abc import Sequence

import numpy as np
from support.lumpy_shapes import lumpy_cloud
from support.oracles import haar_rotations
from support.rigid_motions import rigid_motions

from eda.assembly import Alternative
from eda.output.report import Report, ReportPiece

HOSTILE = "</script><script>alert('1')</script><img src=x onerror=alert(2)> &amp; \" ' {{scripts}} \u2028 Gefäß \udc80"


def random_poses(*shape: int, seed: int = 0) -> np.ndarray:
    """Poses (*shape, 4, 4)."""
    rng = np.random.default_rng(seed)
    rotations = haar_rotations(int(np.prod(shape)), seed).numpy().reshape(*shape, 3, 3)
    return rigid_motions(rotations, 2 * rng.normal(size=(*shape, 3)))


def alternative_of(
    poses: np.ndarray,
    score: float = 1.0,
    probability: float = 0.5,
    confidence: np.ndarray | None = None,
    *,
    placed: Sequence[bool] | None = None,
    joints: Sequence[tuple[int, int, float]] = (),
) -> Alternative:
    """One alternative, with all pieces placed and confidences of 1 unless something else is given."""
    count = len(poses)
    matrix = np.zeros((count, count))
    for i, j, value in joints:
        matrix[i, j] = matrix[j, i] = value
    is_placed = np.ones(count, dtype=bool) if placed is None else np.array(placed)
    return Alternative(
        poses, is_placed, score, probability, np.ones(count) if confidence is None else confidence, matrix, 1
    )


def report_of(num_pieces: int = 3, size: int = 80, **given) -> Report:
    """A report of lumpy pieces in random poses; `given` replaces what it is made of."""
    clouds = [lumpy_cloud(i, size + i) for i in range(num_pieces)]
    pieces = [ReportPiece(f"piece {i}", points, normals) for i, (points, normals) in enumerate(clouds)]
    alternatives = [alternative_of(random_poses(num_pieces))]
    return Report(**{"title": "Pot", "pieces": pieces, "alternatives": alternatives, **given})


def page_data(page: str) -> dict:
    """The data in a page, read as a browser would: up to the first end of a script."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script', page, re.DOTALL)[1])


def decoded_array(text: str, dtype: str, *shape: int) -> np.ndarray:
    """An array from its base64."""
    return np.frombuffer(base64.b64decode(text), dtype).reshape(*shape)
