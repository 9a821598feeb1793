"""A folder that work goes into piece by piece, and a file in it that says what it is meant to hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eda.atomic import write_atomically
from eda.data.reading import read_json
from eda.errors import InputError


def claim_folder(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write what the folder will hold into the file `name`, or check that it is what it was meant to hold.

    Raises `InputError` for a folder that holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: not a folder")
    if (folder / name).is_file():
        if read_json(folder / name) != json.loads(json.dumps(content)):
            raise InputError(f"{folder}: holds another dataset; choose another folder, or delete this one")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder}: not empty, and not a dataset; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, json.dumps(content, indent=2).encode())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error})") from error
