"""Named tensors and a few texts as the bytes of a safetensors file: equal content gives equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from safetensors.torch import save as serialize
from torch import Tensor

_LENGTH = 8  # bytes of the number before the header, and what its end is aligned to
_METADATA = "__metadata__"


def tensor_file_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The file; in which order the tensors and the metadata are given does not matter."""
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    return with_metadata(serialize(copies), metadata)


def with_metadata(content: bytes, metadata: Mapping[str, str]) -> bytes:
    """A safetensors file with other metadata. The bytes of its tensors stay the same."""
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    # safetensors sorts tensors, but would write the metadata in an order by chance.
    tensors = {name: entry for name, entry in json.loads(content[_LENGTH:end]).items() if name != _METADATA}
    header = json.dumps({_METADATA: dict(sorted(metadata.items())), **tensors}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _LENGTH)
    return b"".join([len(header).to_bytes(_LENGTH, "little"), header, memoryview(content)[end:]])
