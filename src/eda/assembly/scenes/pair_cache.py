"""PairCache: the results of registered pairs in a folder, so that a long run can be stopped and goes on.

A result is found by what it depends on: the content of the two clouds, the model, the settings and the version of Eda.
Therefore a folder can serve many runs. Changes of the code within a version are not noticed; any file, or all, can be
deleted at any time. Files are JSON and are written whole. One that is damaged, or was made by somebody else, counts as
missing: nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eda.atomic import write_atomically
from eda.calibration import calibration_values
from eda.errors import InputError
from eda.model import Eda
from eda.registration.rigid import is_rigid
from eda.tensor_file import tensor_file_bytes

VERSION = 1  # of what a result means; another one makes all files useless
_MAX_BYTES = 2**20  # of a file; a result has some hundred
_MAX_JOINTS = 100


class PairJoint(NamedTuple):
    """One way in which two scans may lie to each other."""

    T_second_first: np.ndarray  # (4, 4) in the frames and the unit of the user's clouds
    probability: float


@dataclass(frozen=True)
class PairCache:
    """A folder of results, which need not exist yet; None keeps nothing."""

    folder: Path | None

    def read(self, key: str) -> tuple[PairJoint, ...] | None:
        """What was found for a pair; None if nothing usable is there."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            if not path.is_file() or path.stat().st_size > _MAX_BYTES:
                return None
            return _joints(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None

    def write(self, key: str, joints: Sequence[PairJoint]) -> None:
        """Keep what was found for a pair."""
        if self.folder is None:
            return
        records = [{"pose": one.T_second_first.tolist(), "probability": one.probability} for one in joints]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(key), json.dumps({"version": VERSION, "joints": records}).encode())
        except OSError as error:
            raise InputError(
                f"{self.folder}: results of pairs cannot be kept there ({error}); name another folder"
            ) from error

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}.json"


def _joints(content: dict) -> tuple[PairJoint, ...] | None:
    """Those of a file; None if it is of another version or something in it is not what it should be."""
    if content["version"] != VERSION or len(content["joints"]) > _MAX_JOINTS:
        return None
    joints = tuple(
        PairJoint(np.array(one["pose"], dtype=np.float64), float(one["probability"])) for one in content["joints"]
    )
    is_sound = all(
        pose.shape == (4, 4) and is_rigid(pose, 1e-6) and (pose[3] == [0, 0, 0, 1]).all() and 0 <= probability <= 1
        for pose, probability in joints
    )
    return joints if is_sound else None


def digest(*parts: str | bytes) -> str:
    """A name for some content; that of other content is another."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        whole.update(len(content).to_bytes(8, "little") + content)
    return whole.hexdigest()


def model_digest(model: Eda) -> str:
    """The name of a model by all that it says: config, weights and calibrations."""
    calibrations = None if model.calibrations is None else calibration_values(model.calibrations)
    return digest(repr(model.config), repr(calibrations), tensor_file_bytes(model.state_dict(), {}))
