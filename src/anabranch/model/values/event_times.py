"""Event times: the time field of an event type, and its value as an integer.

Internally a time is an integer of 64 bits. A field of type `int` is used unchanged, in any unit the user
chooses. A field of type `datetime` is converted to microseconds UTC since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

FIRST_MOMENT = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
LAST_MOMENT = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
"""The first and the last microsecond of the calendar, which has the years 1 to 9999."""

T = TypeVar("T")


class _Mark:
    """The marker in the annotation of an event's time field."""

    def __repr__(self) -> str:
        return "EventTime"


EventTime = Annotated[T, _Mark()]
"""The annotation of an event type's time field, if its name is not `time`.

    class Txn(NamedTuple):
        at: EventTime[datetime]
        account: str
"""

NAMED = "__event_time__"
"""The attribute that names the time field of a class without annotations."""


def to_microseconds(moment: datetime) -> int:
    """Return a datetime as microseconds UTC; one without a zone is taken as UTC.

    >>> to_microseconds(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // _MICROSECOND


def to_moment(time: int) -> datetime:
    """Return microseconds UTC as a datetime; times out of range give the first or last datetime.

    >>> str(to_moment(1_000_000))
    '1970-01-01 00:00:01+00:00'
    """
    return EPOCH + timedelta(microseconds=min(max(time, FIRST_MOMENT), LAST_MOMENT))


def list_time_fields(cls: type) -> list[str]:
    """Return the fields that are marked as the event's time."""
    named = cls.__dict__.get(NAMED)
    if named is not None:
        return [named]
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):
        # A name in an annotation can't be resolved here; its text still shows the marker.
        raw = getattr(cls, "__annotations__", {})
        return [name for name, hint in raw.items() if _reads_as_mark(hint)]
    return [name for name, hint in hints.items() if _is_marked(hint)]


def _is_marked(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(m, _Mark) for m in get_args(hint)[1:])


def _reads_as_mark(hint: Any) -> bool:
    text = getattr(hint, "__forward_arg__", hint)
    if isinstance(text, str):
        return text.split("[")[0].split(".")[-1] == "EventTime"
    return _is_marked(hint)


def to_time(value: Any) -> int:
    """Return the value of a time field as an integer; invalid values are returned unchanged, and rejected later."""
    return to_microseconds(value) if isinstance(value, datetime) else value


class _TimeFields(dict[type, str]):
    """A cache of the time field of each type. It is read for each event, so it is a plain dict."""

    def __missing__(self, cls: type) -> str:
        found = self[cls] = next(iter(list_time_fields(cls)), "time")
        return found


_TIME_FIELDS = _TimeFields()


def time_field(cls: type) -> str:
    """Return the name of the time field of an event type: `time`, unless another is marked."""
    return _TIME_FIELDS[cls]


def time_of(data: Any) -> int:
    """Return the time of an event's fields as an integer."""
    time: Any = getattr(data, _TIME_FIELDS[type(data)])
    if type(time) is int:
        return time
    if type(time) is datetime and time.tzinfo is UTC:
        return (time - EPOCH) // _MICROSECOND
    return to_time(time)


@cache
def is_timestamped(cls: type) -> bool:
    """Return whether the time of an event type is a `datetime`."""
    try:
        return get_type_hints(cls).get(time_field(cls)) is datetime
    except (NameError, TypeError):
        return False


def write_time(cls: type, time: int) -> Any:
    """Return a time as a value of an event type's time field: a datetime, or the integer."""
    return to_moment(time) if is_timestamped(cls) else time
