"""Rooms that never were, scanned by a camera that never was: pairs of partial scans, as many as wanted.

In: a seed, and objects to put about. Out: for every item one room, and some pairs of its scans as `Example`s, from
nothing in common to nearly the same view. All lengths are in metres, all angles in radians, and z points up.
"""

from eda.data.rooms.room_source import RoomSource

__all__ = ["RoomSource"]
