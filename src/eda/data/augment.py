"""Augmentation: random changes of an example between the disk and the network."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eda.data.example import LOST, OUTER, Example
from eda.pieces import MIN_POINTS
from eda.settings import check_positive, check_share


@dataclass(frozen=True)
class Augmentation:
    """Which changes may happen, each by chance."""

    keep: float = 1.0  # scans are cropped to a share of their points drawn from [keep, 1]; the authors use 0.7
    mirror: float = 0.0  # probability of becoming its mirror image, which is a room or an object as good as any
    noise: float = 0.0  # points are moved by up to this standard deviation, in the units of the example
    tilt: float = 0.0  # normals are tilted by up to this standard deviation, in radians
    drop: float = 0.0  # probability of losing a piece, where more than two are left
    foreign: float = 0.0  # probability of gaining a piece of another example
    join: float = 0.0  # probability of having fewer pieces, since some that touch are joined

    def __post_init__(self) -> None:
        for name in ("keep", "mirror", "drop", "foreign", "join"):
            check_share(name, getattr(self, name))
        for name in ("noise", "tilt"):
            if getattr(self, name) != 0:
                check_positive(name, getattr(self, name))

    @property
    def changes_nothing(self) -> bool:
        """Whether every example stays as it is."""
        return self == Augmentation()

    def __call__(self, example: Example, rng: np.random.Generator, another: Example | None) -> Example:
        """A changed example; `another` is the one that a foreign piece is taken from, where there is one."""
        if self.join and rng.random() < self.join:  # who asks for none draws as before
            example = join_pieces(example, rng)
        if self.keep < 1:
            example = crop(example, self.keep, rng)
        if self.mirror and rng.random() < self.mirror:  # likewise
            example = mirror_image(example)
        if self.noise or self.tilt:
            example = add_noise(example, self.noise * rng.random(), self.tilt * rng.random(), rng)
        if rng.random() < self.drop and example.num_pieces > 2:
            example = without_piece(example, int(rng.integers(example.num_pieces)))
        if rng.random() < self.foreign and another is not None:
            example = with_foreign_piece(example, another, rng)
        return example


def join_pieces(example: Example, rng: np.random.Generator) -> Example:
    """Pieces that touch joined at random, until a random smaller number of the object's own is left, at least two.

    The points between pieces that were joined are gone, and nothing else is moved. What touches is known by the labels
    of contact, so an example without them stays as it is, and so do foreign pieces.
    """
    if example.contact is None or example.own.sum() <= 2:
        return example
    group = _random_groups(example, example.contact, rng)
    if group.max() + 1 == example.num_pieces:
        return example
    owner = np.repeat(np.arange(example.num_pieces), example.sizes)
    order = np.argsort(group[owner], kind="stable")
    order = order[~_between(example.contact, owner, group)[order]]
    # The farthest-point order of what was joined is another one, so the gaps are dropped.
    joined = replace(example, foreign=None, gaps=None).rows(order, np.bincount(group[owner[order]]))
    contact = np.where(example.contact >= 0, group[example.contact], example.contact)[order].astype(np.int16)
    alone = np.unique(group, return_index=True)[1]  # a foreign piece is the only one of its group
    return replace(joined, contact=contact, foreign=None if example.foreign is None else example.foreign[alone])


def _random_groups(example: Example, contact: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(N,) the number of the joined piece that every piece becomes a part of, by the first of its parts."""
    owner, own = np.repeat(np.arange(example.num_pieces), example.sizes), example.own
    touches = (contact >= 0) & own[owner] & own[contact]
    pairs = np.unique(np.sort(np.stack([owner, contact], axis=-1)[touches], axis=1), axis=0)
    group, surplus = np.arange(example.num_pieces), own.sum() - rng.integers(2, own.sum())
    for first, second in rng.permutation(pairs):
        low, high = sorted((group[first], group[second]))
        joined = np.where(group == high, low, group)
        left = (joined[owner] == low) & ~_between(contact, owner, joined)
        if surplus and low != high and left.sum() >= MIN_POINTS:
            group, surplus = joined, surplus - 1
    return np.unique(group, return_inverse=True)[1]


def _between(contact: np.ndarray, owner: np.ndarray, group: np.ndarray) -> np.ndarray:
    """(P,) bool, which points touch a piece of their own group."""
    return (contact >= 0) & (group[contact] == group[owner])


def crop(example: Example, keep: float, rng: np.random.Generator) -> Example:
    """Cut every piece by a random plane so that a share of its points drawn from [keep, 1] is left."""
    chosen, sizes = [], []
    for start, cloud in zip(np.cumsum(example.sizes) - example.sizes, example.clouds(), strict=True):
        height = cloud @ rng.normal(size=3)
        size = max(round(len(cloud) * rng.uniform(keep, 1)), min(MIN_POINTS, len(cloud)))
        chosen.append(start + np.sort(np.argpartition(height, size - 1)[:size]))
        sizes.append(size)
    # What is left of a farthest-point order after a cut is none, so the gaps are dropped.
    return replace(example, gaps=None).rows(np.concatenate(chosen), np.array(sizes, dtype=np.int64))


def mirror_image(example: Example) -> Example:
    """The mirror image; which plane is the mirror does not matter, since a turn of the whole does not."""
    flip = np.array([-1, 1, 1], dtype=np.float32)
    return replace(
        example, points=example.points * flip, normals=None if example.normals is None else example.normals * flip
    )


def add_noise(example: Example, noise: float, tilt: float, rng: np.random.Generator) -> Example:
    """Points moved and normals tilted, each by chance of its own, as a worse sensor would have seen them."""
    points, normals = example.points + noise * rng.normal(size=example.points.shape), example.normals
    if normals is not None:
        normals = normals + tilt * rng.normal(size=normals.shape)
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        normals = (normals / np.maximum(length, 1e-12)).astype(np.float32)
    return replace(example, points=points.astype(np.float32), normals=normals, gaps=None)


def without_piece(example: Example, piece: int) -> Example:
    """The example without one piece; what touched it still lies on a break."""
    owner = np.repeat(np.arange(example.num_pieces), example.sizes)
    unmarked = replace(example, foreign=None)
    left = unmarked.rows(np.flatnonzero(owner != piece), np.delete(example.sizes, piece))
    contact = left.contact
    if contact is not None:
        contact = np.where(contact == piece, LOST, np.where(contact > piece, contact - 1, contact))
    return replace(left, contact=contact, foreign=np.delete(~example.own, piece))


def with_foreign_piece(example: Example, other: Example, rng: np.random.Generator) -> Example:
    """The example with one piece of another example somewhere near, marked as foreign."""
    piece = int(rng.integers(other.num_pieces))
    rows = slice(int(other.sizes[:piece].sum()), int(other.sizes[: piece + 1].sum()))

    def join(mine: np.ndarray | None, theirs: np.ndarray | None) -> np.ndarray | None:
        return None if mine is None or theirs is None else np.concatenate([mine, theirs[rows]])

    broken = None if other.contact is None else np.where(other.contact == OUTER, OUTER, LOST).astype(np.int16)
    points = join(example.points, other.points)
    assert points is not None
    return Example(
        name=example.name,
        points=points,
        sizes=np.append(example.sizes, other.sizes[piece]),
        normals=join(example.normals, other.normals),
        contact=join(example.contact, broken),
        foreign=np.append(~example.own, True),
        gaps=join(example.gaps, other.gaps),
    )
