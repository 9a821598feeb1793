"""Old pickled files, read without running them: numbers, text, arrays and containers of these, and nothing else.

A pickle is a program for a small stack machine, and Python's own machine calls whatever the file names. This one has
no way to call anything: it knows the steps that build numbers, text and containers, and a short table of words for
numpy's arrays, each of which is a function of ours. Memory is bounded by the size of the file, because arrays are views
of the bytes they are made of, containers grow by a step of the file each, and the number of steps is bounded.
"""

from __future__ import annotations

import io
import math
import pickletools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from eda.data.reading import DamageError, reading

MAX_STEPS = 3_000_000  # of one pickle; the published lists of 20,000 pairs take half of them
_PLAIN_DTYPE = re.compile(r"[<>|=]?[biufSU]\d{1,9}")  # booleans, numbers, text: no dtype that holds pointers
_MOST_KEY = 2**63  # larger whole numbers can be chosen so that all of them fall on one place of a dict


class RefusedError(DamageError):
    """The pickle says something that is not on the list."""


class Word(NamedTuple):
    """A function or a class as a pickle names it."""

    module: str
    name: str


Call = Callable[..., Any]
Words = Mapping[Word, Call | None]  # what each word builds; None: a word that is only an argument of others


def read_pickle(path: Path) -> Any:
    """The containers, numbers and arrays in a pickle."""
    with reading(path, "a pickle of numbers, text and arrays alone"):
        return unpickle(io.BytesIO(path.read_bytes()))


def unpickle(stream: BinaryIO, words: Words | None = None, storage_of: Call | None = None) -> Any:
    """What the next pickle of a stream in memory builds; `storage_of` gives what its persistent names stand for."""
    return _Machine(WORDS if words is None else words, storage_of).run(stream)


# -- arrays of numpy ---------------------------------------------------------------------------------------


class _Dtype:
    """Stands for a `numpy.dtype` while its pickle is read."""

    def __init__(self, code: Any, *_: object) -> None:
        text = code.decode("latin-1") if isinstance(code, bytes) else code
        if not isinstance(text, str) or not _PLAIN_DTYPE.fullmatch(text):
            raise RefusedError(f"an array of {str(text)[:40]!r}")
        self.dtype = np.dtype(text)

    def build(self, state: Any) -> _Dtype:
        self.dtype = self.dtype.newbyteorder(">" if state[1] in (">", b">") else "<")
        return self


class _UnfinishedArray:
    """What `_reconstruct` makes: an array without dtype, shape and content, which `BUILD` gives it."""

    def __init__(self) -> None:
        self.indices: list[int] = []  # where it is in the memo

    def build(self, state: Any) -> np.ndarray:
        _version, shape, dtype, fortran, content = state
        return array_of(content, dtype, shape, "F" if fortran else "C")


def array_of(content: Any, dtype: Any, shape: Any, order: Any = "C") -> np.ndarray:
    """A view of bytes as an array of exactly their size."""
    if isinstance(content, str):  # as Python 2 wrote bytes
        content = content.encode("latin-1")
    if not isinstance(dtype, _Dtype) or not isinstance(content, (bytes, bytearray)):
        raise RefusedError("an array of objects")
    kind, sizes = dtype.dtype, shape if isinstance(shape, tuple) else (shape,)
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise RefusedError(f"an array of shape {str(shape)[:40]}")
    if kind.itemsize == 0 or math.prod(sizes) * kind.itemsize != len(content):
        raise RefusedError(f"an array of {math.prod(sizes)} numbers with {len(content)} bytes of them")
    return np.frombuffer(content, dtype=kind).reshape(sizes, order="F" if order in ("F", b"F") else "C")


def _reconstruct(kind: Any, *_: object) -> _UnfinishedArray:
    if kind != Word("numpy", "ndarray"):
        raise RefusedError("an array of another class")
    return _UnfinishedArray()


def _scalar(dtype: Any, content: Any) -> Any:
    return array_of(content, dtype, (1,))[0]


def _encode(text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise RefusedError(f"text as {encoding!r}")
    return text.encode("latin-1")


def _empty_bytes(*arguments: object) -> bytes:
    if arguments:
        raise RefusedError("bytes made of something")
    return b""


# -- containers --------------------------------------------------------------------------------------------


def _items(*arguments: Any) -> list | tuple:
    """What a container is made of; nothing, if nothing is given."""
    if not arguments:
        return ()
    (given,) = arguments
    if not isinstance(given, (list, tuple)):
        raise RefusedError("a container made of something else than a list")
    return given


def _check_key(value: Any) -> Any:
    """What may be a key: text, and numbers of a size that cannot be chosen to make looking them up slow."""
    if isinstance(value, (str, bytes)) or value is None:
        return value
    if isinstance(value, (int, float)) and abs(value) < _MOST_KEY:
        return value
    raise RefusedError("a key that is neither text nor a number")


def _dict_of(*arguments: Any) -> dict:
    return {_check_key(key): value for key, value in _items(*arguments)}


def _set_of(*arguments: Any) -> set:
    return {_check_key(value) for value in _items(*arguments)}


_CONTAINERS: Words = {
    Word("builtins", "list"): lambda *given: list(_items(*given)),
    Word("builtins", "tuple"): lambda *given: tuple(_items(*given)),
    Word("builtins", "dict"): _dict_of,
    Word("builtins", "set"): _set_of,
    Word("collections", "OrderedDict"): _dict_of,
}
WORDS: Words = {
    **_CONTAINERS,
    Word("_codecs", "encode"): _encode,
    Word("builtins", "bytes"): _empty_bytes,
    Word("numpy", "ndarray"): None,
    Word("numpy", "dtype"): _Dtype,
    Word("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    Word("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    Word("numpy.core.numeric", "_frombuffer"): array_of,
    Word("numpy._core.numeric", "_frombuffer"): array_of,
    Word("numpy.core.multiarray", "scalar"): _scalar,
    Word("numpy._core.multiarray", "scalar"): _scalar,
}


# -- the machine -------------------------------------------------------------------------------------------


class _Machine:
    """A stack, a memo, and what each step of a pickle does to them."""

    def __init__(self, words: Words, storage_of: Call | None) -> None:
        self.words, self.storage_of = words, storage_of
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []  # the stacks below each mark
        self.memo: dict[int, Any] = {}
        self.steps = 0
        self.unfinished = 0  # arrays

    def run(self, stream: BinaryIO) -> Any:
        for operation, argument, _ in pickletools.genops(stream):
            self._count(1)
            step = _STEPS.get(operation.name)
            if step is None:
                raise RefusedError(f"a step {operation.name}, which is not needed to read numbers")
            step(self, argument)
        if self.unfinished:
            raise RefusedError("an array without content")
        return self.stack.pop()

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise RefusedError(f"a pickle of more than {MAX_STEPS} steps")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self, _: object) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def pop_marked(self) -> list[Any]:
        values, self.stack = self.stack, self.marked.pop()
        return values

    def pop_pairs(self) -> Iterator[tuple[Any, Any]]:
        values = self.pop_marked()
        return zip(map(_check_key, values[::2]), values[1::2], strict=True)

    def top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise RefusedError(f"something else where a {kind.__name__} is needed")
        return self.stack[-1]

    def collect(self, count: int) -> None:
        self.stack[len(self.stack) - count :] = [tuple(self.stack[len(self.stack) - count :])]

    def word(self, module: Any, name: Any) -> None:
        word = Word("builtins" if module == "__builtin__" else module, name)  # as Python 2 wrote it
        if word not in self.words:
            raise RefusedError(f"it wants to call {module}.{name}, which is not needed to read numbers")
        self.push(word)

    def reduce(self, _: object) -> None:
        arguments, word = self.stack.pop(), self.stack.pop()
        call = self.words.get(word) if isinstance(word, Word) else None
        if call is None or not isinstance(arguments, tuple):
            raise RefusedError(f"it wants to call {str(word)[:60]}, which is not needed to read numbers")
        if word in _CONTAINERS and arguments:
            self._count(len(_items(*arguments)))
        value = call(*arguments)
        self.unfinished += isinstance(value, _UnfinishedArray)
        self.push(value)

    def build(self, _: object) -> None:
        state, target = self.stack.pop(), self.stack.pop()
        if not isinstance(target, (_Dtype, _UnfinishedArray)):
            raise RefusedError("it wants to change something that is neither an array nor a dtype")
        value = target.build(state)
        if isinstance(target, _UnfinishedArray):
            self.unfinished -= 1
            self.memo.update(dict.fromkeys(target.indices, value))
        self.push(value)

    def memoize(self, index: int) -> None:
        value = self.memo[index] = self.stack[-1]
        if isinstance(value, _UnfinishedArray):
            value.indices.append(index)

    def name_storage(self, _: object) -> None:
        if self.storage_of is None:
            raise RefusedError("a name of something outside of it")
        self.push(self.storage_of(self.stack.pop()))

    def pop(self, _: object) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_marked()


def _constant(value: Any) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(value)


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, _: None),
    **dict.fromkeys(
        (
            "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
            "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
            "BINBYTES8", "BYTEARRAY8",
        ),
        _Machine.push,
    ),
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "MARK": _Machine.mark,
    "POP": _Machine.pop,
    "POP_MARK": lambda machine, _: machine.pop_marked().clear(),
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "LIST": lambda machine, _: machine.push(machine.pop_marked()),
    "APPEND": lambda machine, _: _append(machine, [machine.stack.pop()]),
    "APPENDS": lambda machine, _: _append(machine, machine.pop_marked()),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_marked())),
    "TUPLE1": lambda machine, _: machine.collect(1),
    "TUPLE2": lambda machine, _: machine.collect(2),
    "TUPLE3": lambda machine, _: machine.collect(3),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "DICT": lambda machine, _: machine.push(dict(machine.pop_pairs())),
    "SETITEM": lambda machine, _: _set_item(machine),
    "SETITEMS": lambda machine, _: _set_items(machine),
    "EMPTY_SET": lambda machine, _: machine.push(set()),
    "ADDITEMS": lambda machine, _: _add_items(machine),
    "FROZENSET": lambda machine, _: machine.push(frozenset(map(_check_key, machine.pop_marked()))),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, index: machine.push(machine.memo[index])),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Machine.memoize),
    "MEMOIZE": lambda machine, _: machine.memoize(len(machine.memo)),
    "GLOBAL": lambda machine, pair: machine.word(*pair.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.word(*reversed([machine.stack.pop(), machine.stack.pop()])),
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.name_storage,
}  # fmt: skip


def _append(machine: _Machine, values: list[Any]) -> None:
    machine.top(list).extend(values)


def _set_item(machine: _Machine) -> None:
    value, key = machine.stack.pop(), _check_key(machine.stack.pop())
    machine.top(dict)[key] = value


def _set_items(machine: _Machine) -> None:
    pairs = machine.pop_pairs()
    machine.top(dict).update(pairs)


def _add_items(machine: _Machine) -> None:
    values = machine.pop_marked()
    machine.top(set).update(map(_check_key, values))
