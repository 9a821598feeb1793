"""Named tensors and a few texts as the bytes of a safetensors file: equal content gives equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from safetensors.torch import save as serialize
from torch import Tensor

_LENGTH = 8  # bytes of the number before the header, and what its end is aligned to


def tensor_file_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The file; in which order the tensors and the metadata are given does not matter."""
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    content = serialize({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()})
    return with_metadata(content, metadata)


def with_metadata(content: bytes, metadata: Mapping[str, str]) -> bytes:
    """A safetensors file with this metadata in place of what it had. The bytes of its tensors stay the same."""
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    # safetensors sorts tensors, but would write the metadata in an order by chance.
    table = {name: entry for name, entry in json.loads(content[_LENGTH:end]).items() if name != "__metadata__"}
    header = {"__metadata__": dict(sorted(metadata.items())), **table}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, memoryview(content)[end:]])
