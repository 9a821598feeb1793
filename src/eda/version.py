"""Version: which Eda this is."""

__version__ = "0.1.0"
