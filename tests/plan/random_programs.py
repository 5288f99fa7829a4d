"""Programs of every form that a state may have, over random dependence relations.

Nothing here is run: what matters is which events may run apart. Functions are of the right arity and no more.
"""

from hypothesis import assume
from hypothesis import strategies as st

from anabranch import ForkJoin, Program, State, depends, on
from anabranch.errors import ProgramError
from anabranch.state import Count, MapOf, Replicated, Shared, Sum
from tests.simulation.test_random_programs import EVENT_TYPES, FIELDS

STATES = {
    "no fork": lambda by: {"init": 0},
    "no zero": lambda by: {"init": 0, "fork": lambda s, a, b: (s, 0), "join": lambda a, b: a + b},
    "sum": lambda by: {"state": Sum()},
    "copies": lambda by: {"state": Replicated(0)},
    "entries": lambda by: {"state": MapOf(Sum(), by=by)},
    "entries without zero": lambda by: {"state": MapOf(Replicated(0), by=by)},
    "entries within entries": lambda by: {"state": MapOf(MapOf(Count(), by="y"), by=by)},
    "shared": lambda by: {"state": Shared(Replicated(0), MapOf(Sum(), by=by))},
    "lanes": lambda by: {"state": Sum(), "lanes": 3},
    "entries in lanes": lambda by: {"state": MapOf(Sum(), by=by), "lanes": 2},
}


@st.composite
def dependences(draw, event_types):
    found = []
    for place, a in enumerate(event_types):
        for b in event_types[place:]:
            shared = [name for name in FIELDS if hasattr(a, name) and hasattr(b, name)]
            sames = [(), *((name,) for name in shared), *([tuple(shared)] if shared[1:] else [])]
            chosen = draw(st.lists(st.sampled_from(sames), max_size=2, unique=True))
            found += [depends(a, b, same=same) for same in chosen]
    return found


@st.composite
def keyed_dependences(draw, event_types, key):
    """Draw dependences that all ask for equal keys: keys separate, whatever else there is."""
    having = [event_type for event_type in event_types if hasattr(event_type, key)]
    return [
        depends(a, b, same=key)
        for place, a in enumerate(having)
        for b in having[place:]
        if draw(st.booleans())
    ]


@st.composite
def handlers(draw, event_types):
    updates = (None, lambda s, e: s)
    outputs = (None, lambda s, e: 1, lambda s, e: s)
    return [
        on(
            event_type,
            update=draw(st.sampled_from(updates)),
            output=draw(st.sampled_from(outputs)),
            whole=draw(st.integers(0, 5)) == 0,
        )
        for event_type in event_types
    ]


@st.composite
def programs(draw):
    """Draw a program; what `Program` refuses is not one."""
    event_types = draw(st.lists(st.sampled_from(EVENT_TYPES), min_size=1, unique=True))
    key = draw(st.sampled_from(FIELDS))
    form = draw(st.sampled_from([*STATES, "several types", "several types", "several types"]))
    parts = draw(
        keyed_dependences(event_types, key) if draw(st.booleans()) else dependences(event_types)
    )
    try:
        if form == "several types":
            return _draw_types(draw, event_types, parts)
        return Program(*draw(handlers(event_types)), *parts, **STATES[form](key))
    except ProgramError:
        assume(False)
        raise


def _draw_types(draw, event_types, parts):
    """Draw a tree of state types: the whole, a left and a right part, and parts of the left."""
    cuts = sorted(draw(st.integers(0, len(event_types))) for _ in range(2))
    groups = {"all": event_types, "left": event_types[: cuts[1]], "right": event_types[cuts[1] :]}
    groups |= {"left left": event_types[: cuts[0]], "left right": event_types[cuts[0] : cuts[1]]}
    kept = {name: found for name, found in groups.items() if found}

    def fork(state, left, right):
        return state, 0

    states = []
    for name, found in kept.items():
        own = {"zero": 0} if name != "all" and draw(st.integers(0, 3)) else {}
        own |= {"fork": fork, "join": max} if draw(st.integers(0, 3)) else {}
        states.append(State(name, *draw(handlers(found)), init=0, **own))
    forks = [("all", "left", "right"), ("left", "left left", "left right")]
    forks += [("all", "left left", "right")] if draw(st.booleans()) else []
    found = [ForkJoin(*names, fork, max) for names in forks if set(names) <= set(kept)]
    if draw(st.booleans()):  # Else most of what is drawn ties the sides together.
        inner = [*groups["left left"], *groups["left right"]], [*groups["right"]]
        parts = [p for p in parts if any({p.event_type, *p.others} <= set(side) for side in inner)]
    return Program(*states, *draw(st.permutations(found)), *parts)
