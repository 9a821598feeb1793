"""Clips fresh from the generator of streets: clip i is always the same one, whoever makes it and in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from eda.cloud import voxel_grid
from eda.data.example import NEIGHBORS, Example
from eda.data.reading import move_points
from eda.data.rooms.chance import Rng
from eda.data.setting_text import typed_settings
from eda.data.source import ItemSource
from eda.data.streets.bodies import Bodies
from eda.data.streets.centrelines import driven_line
from eda.data.streets.character import draw_character
from eda.data.streets.drive import find_stops, sensor_pose
from eda.data.streets.lidar import LidarConfig, SensorPose, draw_biases, sweep
from eda.data.streets.street import Street, draw_road, lane_of
from eda.errors import InputError
from eda.settings import check_positive, check_whole

_BEYOND = 20.0  # metres of road before the first frame and after the last one, beside the range of the lidar
_LONGEST = 3000.0  # metres of a drive; the ground is a table


class Frame(NamedTuple):
    """One rotation of the lidar."""

    points: np.ndarray  # (n, 3) in the frame of the sensor, all that was measured
    pose: SensorPose


@dataclass(frozen=True)
class StreetSource(ItemSource[int]):
    """Clips, each from a street of its own. Picklable, so that many workers can share the work.

    A clip is called CLIP-FRAMES-METRES, where the metres are the mean distance from one frame to the next.
    """

    clips: int = 100
    seed: int = 0
    frames: tuple[int, int] = (2, 2)  # of a clip, at least and at most
    spacing: tuple[float, float] = (5.0, 10.0)  # metres from a frame to the next, as the crow flies
    lidar: LidarConfig = field(default_factory=LidarConfig)
    grid: float = 0.5  # metres
    neighbors: int = NEIGHBORS  # by which normals are estimated, on the grid; 0: no normals

    def __post_init__(self) -> None:
        check_whole("clips", self.clips, 1, 2**31)
        check_whole("seed", self.seed, 0, 2**63)
        check_whole("frames", self.frames[0], 2, 1000)
        check_whole("frames", self.frames[1], self.frames[0], 1000)
        for metres in self.spacing:
            check_positive("spacing", metres)
        if not 1 <= self.spacing[0] <= self.spacing[1] <= 1000:
            raise InputError(f"spacing must be from 1 to 1000 metres, the lower bound first, got {self.spacing}")
        if (self.frames[1] - 1) * self.spacing[1] > _LONGEST:
            raise InputError(
                f"{self.frames[1]} frames {self.spacing[1]:g} m apart are more than {_LONGEST:g} m of road"
            )
        check_positive("grid", self.grid)
        check_whole("neighbors", self.neighbors, 0, 4096)
        if self.neighbors in (1, 2):
            raise InputError("neighbors must be 0, for no normals, or at least 3: a plane needs three points")

    @staticmethod
    def from_settings(settings: Mapping[str, Any]) -> StreetSource:
        """The source of settings as text: those of its fields and of `LidarConfig`; frames and spacing as MIN-MAX."""
        of_lidar = asdict(LidarConfig())
        of_source = {"clips": 100, "seed": 0, "frames": "2", "spacing": "5-10", "grid": 0.5, "neighbors": NEIGHBORS}
        values = {**of_source, **typed_settings("streets", settings, {**of_source, **of_lidar})}
        lidar = LidarConfig(**{key: values.pop(key) for key in of_lidar if key in values})
        values["frames"] = _bounds("frames", values["frames"], 2)
        values["spacing"] = _bounds("spacing", values["spacing"], 5.0)
        return StreetSource(lidar=lidar, **values)

    @property
    def items(self) -> range:
        """The numbers of the clips."""
        return range(self.clips)

    def read(self, item: int) -> Example:
        """One clip, in the frame of its street."""
        frames = self.drive(item)
        kept = [frame.points[voxel_grid(frame.points, self.grid)] for frame in frames]
        clouds = [move_points(points, frame.pose.matrix) for points, frame in zip(kept, frames, strict=True)]
        places = np.array([frame.pose.place for frame in frames])
        apart = np.linalg.norm(np.diff(places, axis=0), axis=1).mean()
        return Example.from_clouds(f"{item:06d}-{len(frames)}-{apart:.1f}", clouds).with_normals(self.neighbors)

    def drive(self, item: int) -> list[Frame]:
        """The frames of a clip."""
        rng = np.random.default_rng([self.seed, item])
        street, stops = self._street(rng)
        fixed, biases = Bodies.of(street.bodies), draw_biases(self.lidar, rng)
        frames, ground, road = [], street.plan.ground, street.roads[0]
        for along in stops:
            pose = sensor_pose(rng, road.line, along, -lane_of(road, street.character), ground)
            around = fixed.concatenate(street.traffic(along))
            frames.append(Frame(sweep(pose, ground, around, self.lidar, biases, rng), pose))
        return frames

    def description(self) -> dict[str, Any]:
        """Everything that determines the clips, as JSON."""
        config = {name: getattr(self, name) for name in ("frames", "spacing", "grid", "neighbors")}
        return {"made_by": "eda streets", "seed": self.seed, "config": config, "lidar": asdict(self.lidar)}

    def _street(self, rng: Rng) -> tuple[Street, np.ndarray]:
        """A street, and how far along it the frames are."""
        count = int(rng.integers(self.frames[0], self.frames[1] + 1))
        character, beyond = draw_character(rng), self.lidar.range + _BEYOND
        length = 3 * beyond + 2 * (count - 1) * self.spacing[1]
        while True:  # a way that leads in a circle is drawn again
            road = draw_road(rng, driven_line(rng, length, character.bends, character.turns), character)
            stops = find_stops(rng, road.line, -lane_of(road, character), count, self.spacing, beyond)
            if stops is not None and stops[-1] < road.line.length - beyond:
                break
        road = road._replace(line=road.line.part(0, int(stops[-1] + beyond)))
        return Street.along(rng, road, character), stops


def _bounds(name: str, text: str, example: float) -> tuple[Any, Any]:
    """The two numbers of MIN-MAX, or twice the one of a number; of the type of the example."""
    least, _, most = text.partition("-")
    first, second = (typed_settings("streets", {name: end}, {name: example})[name] for end in (least, most or least))
    return first, second
