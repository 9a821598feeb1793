"""Datasets on disk, how they are made, and the loader that feeds training from them."""
