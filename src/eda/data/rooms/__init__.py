"""Generated rooms, scanned by a virtual depth camera: any number of pairs of partial scans.

In: a seed, and objects to put about. Out: for every item one room, and some pairs of its scans as `Example`s, from
nothing in common to nearly the same view. All lengths are in metres, all angles in radians, and z points up.
"""

from eda.data.rooms.room_source import RoomSource

__all__ = ["RoomSource"]
