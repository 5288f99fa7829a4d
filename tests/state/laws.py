"""The laws of a state that values are added to, for whoever tests one."""

import random
from functools import reduce
from typing import Any

from anabranch import Slices
from anabranch.model.shapes import Shape
from anabranch.state.durable.codec import Codec


def fold(shape: Any, values: Any) -> Any:
    return reduce(shape.add, values, shape.zero)


def read(shape: Any, values: Any) -> Any:
    return shape.value(fold(shape, values))


def check_laws(shape: Any, parts: list[list[Any]], seed: int, records: Any = ()) -> None:
    """Hold a state to its laws, and to its bytes: the order of values and joins may not show."""
    assert isinstance(shape, Shape)
    assert shape.by is None
    a, b, c = (fold(shape, part) for part in parts)
    same, join, zero = shape.same, shape.join, shape.zero
    whole = fold(shape, [value for part in parts for value in part])
    assert same(shape.init, zero)
    assert same(join(a, zero), a)
    assert same(join(zero, a), a)
    assert same(join(a, b), join(b, a))
    assert same(join(join(a, b), c), join(a, join(b, c)))
    assert same(join(join(a, b), c), whole)
    assert same(join(*shape.fork(a, Slices(), Slices())), a)
    for value in parts[2]:
        assert same(join(shape.add(a, value), b), shape.add(join(a, b), value))
        assert same(join(a, shape.add(b, value)), shape.add(join(a, b), value))
    shuffled = [value for part in parts for value in part]
    random.Random(seed).shuffle(shuffled)
    codec = Codec(records)
    data = codec.encode(whole)
    assert codec.encode(fold(shape, shuffled)) == data
    assert codec.encode(join(c, join(b, a))) == data
    assert codec.decode(data) == whole
