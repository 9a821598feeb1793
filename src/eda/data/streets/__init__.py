"""Generated streets, driven through by a spinning lidar that is simulated: any number of clips of a drive.

In: a seed, how many frames and how far apart. Out: for every item one street and one clip of a drive through it, an
`Example` whose pieces are single rotations of the lidar. All lengths are in metres, and z points up.
"""

from eda.data.streets.street_source import StreetSource

__all__ = ["StreetSource"]
