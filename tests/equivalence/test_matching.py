"""Hold the online matcher to published cases, to brute force and to a plain transcription."""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from itertools import product

import pytest

from anabranch.equivalence import (
    GLOBAL,
    Arrival,
    Difference,
    Matcher,
    Side,
    compare,
    depends_fully,
    depends_never,
)
from anabranch.equivalence.poset import Element, Poset

LEFT, RIGHT = Side.LEFT, Side.RIGHT
Pairs = frozenset[frozenset[str]]
Source = tuple[Side, str]


def relate(*pairs: str) -> Pairs:
    """Build a dependence on letters from pairs such as "ab"."""
    return frozenset(frozenset(pair) for pair in pairs)


def depend_by(pairs: Pairs) -> Callable[[str, str], bool]:
    return lambda x, y: frozenset((x, y)) in pairs


def interleave(rng: random.Random, left: Iterable[str], right: Iterable[str]) -> list[Source]:
    """Mix two streams at random; each keeps its own order."""
    waiting = {LEFT: list(left), RIGHT: list(right)}
    sides = [side for side in Side for _ in waiting[side]]
    rng.shuffle(sides)
    items = {side: iter(waiting[side]) for side in Side}
    return [(side, next(items[side])) for side in sides]


def find_verdict(matcher: Matcher[str], sources: Iterable[Source]) -> int | None:
    """Return the index of the source that decides, the number of sources for the end, or None."""
    index = -1
    for index, (side, item) in enumerate(sources):
        if matcher.add(side, item) is not None:
            return index
    return None if matcher.finish() is None else index + 1


def judge_every_way(
    left: list[str], right: list[str], depends: Callable[[str, str], bool]
) -> set[bool]:
    """Return the verdicts (True for equivalent) over 200 random interleavings."""
    rng = random.Random(4)
    sources = (interleave(rng, left, right) for _ in range(200))
    return {find_verdict(Matcher(depends), each) is None for each in sources}


# --- Published cases -----------------------------------------------------------------------------

D1 = [(LEFT, "a"), (RIGHT, "c"), (LEFT, "c"), (LEFT, "b"), (RIGHT, "a"), (RIGHT, "b")]


def test_independent_neighbours_may_swap() -> None:
    assert find_verdict(Matcher(depend_by(relate("ab", "cb"))), D1) is None


def test_a_swap_of_dependent_neighbours_is_found_at_the_second_item() -> None:
    assert find_verdict(Matcher(depend_by(relate("ab", "cb", "ac"))), D1) == 1


def test_a_missing_item_is_found_in_every_interleaving() -> None:
    assert judge_every_way(list("aab"), list("ab"), depend_by(relate("ab"))) == {False}


def depends_on_kind(x: str, y: str) -> bool:
    """Let increments commute with increments and decrements with decrements, nothing else."""
    return not (x[:3] == y[:3] and x[:3] in ("Inc", "Dec"))


def test_increments_do_not_pass_decrements() -> None:
    left = ["Inc1", "Dec2", "#", "Inc3", "Dec1", "#"]
    right = ["Dec2", "Inc1", "#", "Dec1", "Inc3", "#"]
    assert judge_every_way(left, right, depends_on_kind) == {False}


def test_increments_and_decrements_commute_among_themselves() -> None:
    left = ["Dec1", "Dec2", "#", "Inc3", "Inc1", "#"]
    right = ["Dec2", "Dec1", "#", "Inc1", "Inc3", "#"]
    assert judge_every_way(left, right, depends_on_kind) == {True}


def depends_unless_same_sign(x: int, y: int) -> bool:
    return not ((x > 0 and y > 0) or (x < 0 and y < 0))


def test_numbers_of_one_sign_commute_up_to_the_zeros() -> None:
    left, right = (1, 2, 0, 3, 1, 0), (2, 1, 0, 1, 3, 0)
    assert compare(left, right, depends_unless_same_sign) is None


def test_an_extra_item_at_the_end_is_a_difference() -> None:
    left, right = (1, 2, 0, 3, 1, 0, 2), (2, 1, 0, 1, 3, 0)
    difference = compare(left, right, depends_unless_same_sign)
    assert difference is not None
    assert (difference.side, difference.ended, difference.came) == (RIGHT, True, None)
    assert difference.expected == (Arrival(LEFT, 6, 2),)
    assert (difference.left_position, difference.right_position) == (6, 6)


def build_poset(
    word: str, pairs: Pairs, bucket: Hashable = GLOBAL
) -> tuple[Poset[str], list[Element[str]]]:
    poset: Poset[str] = Poset(depend_by(pairs), lambda x, y: x == y)
    elements = [
        poset.append(item, position, bucket, poset.find_dependent(item, bucket))
        for position, item in enumerate(word)
    ]
    return poset, elements


def test_the_order_of_a_stream_is_as_published() -> None:
    """Take out minimal items of aabaaabb with a-b: the layers are aa, b, aaa, bb."""
    poset, elements = build_poset("aabaaabb", relate("ab"))
    blockers = [element.blocker and element.blocker.position for element in elements]
    assert blockers == [None, None, 1, 2, 2, 2, 5, 5]
    layers = []
    while poset:
        layer = list(poset.minimal())
        layers.append([element.position for element in layer])
        for element in layer:
            poset.remove(element)
    assert layers == [[0, 1], [2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("bucket", [GLOBAL, "some"])
def test_an_item_stays_blocked_until_all_it_depends_on_is_gone(bucket: Hashable) -> None:
    poset, (first, second, last) = build_poset("acb", relate("ab", "cb"), bucket)
    poset.remove(second)
    assert last.blocker is first
    poset.remove(first)
    assert last.blocker is None
    assert poset.find_minimal("b", bucket) is last


Trip = tuple[int, tuple[int, int]]
TRIPS: list[Trip] = [(1, (5, 5)), (1, (10, 10)), (1, (5, 5)), (1, (0, 0))]


def test_a_projection_that_reorders_one_taxi_is_flagged() -> None:
    def depends_on_taxi(x: Trip, y: Trip) -> bool:
        return x[0] == y[0]

    assert compare(TRIPS, TRIPS, depends_on_taxi) is None
    difference = compare(TRIPS, [TRIPS[1], TRIPS[0], *TRIPS[2:]], depends_on_taxi)
    assert difference is not None
    assert difference.came == Arrival(RIGHT, 0, TRIPS[1])
    assert difference.expected == (Arrival(LEFT, 0, TRIPS[0]),)


def test_the_best_driver_of_each_hour_is_not_the_best_hour_of_each_driver() -> None:
    """Compare (hour, driver, tips) over all drivers with the same computed driver by driver."""
    over_all = [(1, 1, 6), (2, 2, 20)]
    by_driver = [(1, 1, 6), (2, 1, 10), (2, 2, 20)]
    for depends in (depends_never, depends_fully, lambda x, y: x[0] == y[0]):
        assert compare(over_all, by_driver, depends) is not None


# --- Ready-made dependences and equality ---------------------------------------------------------


def test_full_dependence_compares_sequences() -> None:
    assert compare("abc", "abc", depends_fully) is None
    assert compare("abc", "acb", depends_fully) is not None


def test_no_dependence_compares_multisets() -> None:
    assert compare("abcb", "bbca", depends_never) is None
    assert compare("abcb", "bcca", depends_never) is not None
    assert compare("abcb", "bbca", depends_never, bucket=lambda item: item) is None
    assert compare("abcb", "bcca", depends_never, bucket=lambda item: item) is not None


def test_two_empty_streams_are_equivalent() -> None:
    assert compare([], [], depends_fully) is None


def test_a_user_may_say_which_items_are_equal() -> None:
    def is_close(x: float, y: float) -> bool:
        return abs(x - y) < 1e-9

    assert compare([0.1 + 0.2, 1.0], [0.3, 1.0], depends_fully) is not None
    assert compare([0.1 + 0.2, 1.0], [0.3, 1.0], depends_fully, same=is_close) is None
    assert compare([0.1 + 0.2, 1.0], [0.4, 1.0], depends_fully, same=is_close) is not None


def test_nan_equals_itself_only_if_a_user_says_so() -> None:
    nans = [float("nan")], [float("nan")]
    assert compare(*nans, depends_fully) is not None
    assert compare(*nans, depends_fully, same=lambda x, y: repr(x) == repr(y)) is None


def test_items_need_not_be_hashable() -> None:
    assert compare([{"a": 1}, {"b": 2}], [{"b": 2}, {"a": 1}], depends_never) is None


# --- The life of a matcher -----------------------------------------------------------------------


def test_after_a_verdict_items_are_ignored() -> None:
    matcher = Matcher[str](depends_fully)
    matcher.add(LEFT, "a")
    verdict = matcher.add(RIGHT, "b")
    assert verdict is not None
    assert matcher.add(RIGHT, "a") is verdict
    assert matcher.finish() is verdict


def test_finish_changes_nothing() -> None:
    matcher = Matcher[str](depends_fully)
    matcher.add(LEFT, "a")
    assert matcher.finish() is not None
    assert matcher.add(RIGHT, "a") is None
    assert matcher.finish() is None
    assert matcher.unmatched == (0, 0)


def test_a_side_may_be_named_by_a_string_and_no_other() -> None:
    matcher = Matcher[str](depends_fully)
    assert matcher.add("left", "a") is None  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="middle"):
        matcher.add("middle", "a")  # type: ignore[arg-type]
    assert matcher.unmatched == (1, 0)


def test_a_negative_context_is_refused() -> None:
    with pytest.raises(ValueError, match="context must be 0 or more items, got -1"):
        Matcher[str](depends_fully, context=-1)


def test_compare_reads_no_further_than_the_verdict() -> None:
    def read(word: str) -> Iterator[str]:
        yield from word
        raise AssertionError("read past the verdict")

    assert compare(read("ab"), read("ac"), depends_fully) is not None


# --- What a difference contains-------------------------------------------------------------------


def test_a_difference_names_the_bottom_of_what_was_owed() -> None:
    """Add d, which depends on c, while a and b below c are unmatched: a had to come first."""
    matcher = Matcher(depend_by(relate("ab", "bc", "cd")))
    for item in "abc":
        assert matcher.add(LEFT, item) is None
    difference = matcher.add(RIGHT, "d")
    assert difference == Difference(
        side=RIGHT,
        came=Arrival(RIGHT, 0, "d"),
        expected=(Arrival(LEFT, 0, "a"),),
        ended=False,
        left_position=0,
        right_position=0,
        left_context=tuple(Arrival(LEFT, at, item) for at, item in enumerate("abc")),
        right_context=(Arrival(RIGHT, 0, "d"),),
        left_unmatched=3,
        right_unmatched=1,
    )


def test_a_difference_names_all_it_waited_for_up_to_five() -> None:
    matcher = Matcher[str](lambda x, y: "#" in (x, y))
    for item in "abcdefg":
        matcher.add(LEFT, item)
    difference = matcher.add(RIGHT, "#")
    assert difference is not None
    assert [arrival.item for arrival in difference.expected] == ["g", "a", "b", "c", "d"]


def test_a_difference_at_the_end_names_both_sides() -> None:
    difference = compare("xa", "xb", depends_never)
    assert difference is not None
    assert difference.expected == (Arrival(LEFT, 1, "a"),)
    assert difference.came == Arrival(RIGHT, 1, "b")
    assert (difference.left_unmatched, difference.right_unmatched) == (1, 1)


def test_a_difference_at_the_end_may_be_an_item_missing_on_the_left() -> None:
    difference = compare("x", "xb", depends_never)
    assert difference is not None
    assert (difference.side, difference.came) == (LEFT, None)
    assert difference.expected == (Arrival(RIGHT, 1, "b"),)
    assert (difference.left_position, difference.right_position) == (1, 1)


def test_an_early_item_is_described() -> None:
    matcher = Matcher[str](depends_fully, context=2)
    for item in "xyzuvw":
        matcher.add(LEFT, item)
    matcher.add(RIGHT, "x")
    assert str(matcher.add(RIGHT, "z")) == (
        "The streams differ: an item of the right stream is too early, or one too many.\n"
        "  got       right[1] = 'z'\n"
        "  expected  left[1] = 'y'\n"
        "On the left, the expected item is first, and the order of the two matters.\n"
        "\n"
        "Around the first difference:\n"
        "  left\n"
        "      ...\n"
        "   -> [1] 'y'\n"
        "      ...\n"
        "      [4] 'v'\n"
        "      [5] 'w'\n"
        "  right\n"
        "      [0] 'x'\n"
        "   -> [1] 'z'\n"
        "Items without a counterpart: 5 on the left, 1 on the right."
    )


def test_a_missing_item_is_described_and_long_items_are_cut() -> None:
    difference = compare(["x" * 200], ["y"], depends_never)
    assert difference is not None
    long = "'" + "x" * 116 + "..."
    assert difference.describe() == (
        "The streams differ: the right stream ended, and items are missing.\n"
        f"  missing   left[0] = {long}\n"
        "  instead   right[0] = 'y'\n"
        "\n"
        "Around the first difference:\n"
        "  left\n"
        f"   -> [0] {long}\n"
        "  right\n"
        "   -> [0] 'y'\n"
        "Items without a counterpart: 1 on the left, 1 on the right."
    )


def test_an_empty_side_is_described() -> None:
    difference = compare("a", "", depends_fully)
    assert difference is not None
    assert "  right\n      (nothing)\n" in difference.describe()


# --- Against brute force -------------------------------------------------------------------------


@cache
def close_under_swaps(word: str, pairs: Pairs) -> frozenset[str]:
    """Return every word that swaps of independent neighbours lead to: the definition itself."""
    seen, todo = {word}, [word]
    while todo:
        current = todo.pop()
        for i in range(len(current) - 1):
            if frozenset(current[i : i + 2]) not in pairs:
                swapped = current[:i] + current[i + 1] + current[i] + current[i + 2 :]
                if swapped not in seen:
                    seen.add(swapped)
                    todo.append(swapped)
    return frozenset(seen)


def draw_pairs(rng: random.Random, alphabet: str) -> Pairs:
    """Draw a symmetric dependence on letters, on themselves included."""
    return relate(*(x + y for x in alphabet for y in alphabet if x <= y and rng.random() < 0.5))


def disturb(rng: random.Random, word: str, pairs: Pairs, alphabet: str) -> str:
    """Return an equivalent word, or in half of the cases one that an accident befell."""
    letters = list(word)
    for _ in range(3 * len(word)):
        i = rng.randrange(len(word) - 1) if len(word) > 1 else 0
        if frozenset(letters[i : i + 2]) not in pairs:
            letters[i : i + 2] = reversed(letters[i : i + 2])
    accident = rng.randrange(6)
    if accident == 0 and letters:
        letters.pop(rng.randrange(len(letters)))
    elif accident == 1 and letters:
        letters[rng.randrange(len(letters))] = rng.choice(alphabet)
    elif accident == 2:
        rng.shuffle(letters)
    return "".join(letters)


def test_differential_brute_force_agrees_on_10_000_random_cases() -> None:
    """Compare with the closure under swaps, which shares no idea with the matcher."""
    rng = random.Random(20)
    verdicts = {True: 0, False: 0}
    for _ in range(500):
        pairs = draw_pairs(rng, "abcd")
        for _ in range(20):
            left = "".join(rng.choices("abcd", k=rng.randrange(8)))
            right = disturb(rng, left, pairs, "abcd")
            expected = right in close_under_swaps(left, pairs)
            sources = interleave(rng, left, right)
            verdict = find_verdict(Matcher(depend_by(pairs)), sources)
            assert (verdict is None) == expected, (pairs, sources)
            assert (compare(left, right, depend_by(pairs)) is None) == expected, (pairs, sources)
            verdicts[expected] += 1
        close_under_swaps.cache_clear()
    assert min(verdicts.values()) > 2_000, verdicts


@cache
def extend(word: str, pairs: Pairs, longest: int) -> frozenset[str]:
    """Return a normal form of each continuation of the word by at most `longest` letters."""
    return frozenset(
        min(close_under_swaps(word + "".join(rest), pairs))
        for length in range(longest + 1)
        for rest in product("abc", repeat=length)
    )


def may_become_equivalent(left: str, right: str, pairs: Pairs) -> bool:
    """Decide by search whether continuations c, d exist with left·c equivalent to right·d.

    The search is bounded and yet complete. In a common continuation, left and right are two sets
    of items closed downwards. So is their union, which is thus itself a common continuation, and
    it adds to each side only items of the other.
    """
    return not extend(left, pairs, len(right)).isdisjoint(extend(right, pairs, len(left)))


def test_differential_brute_force_the_verdict_comes_at_the_earliest_item() -> None:
    """Hold each source to the definition: different now iff no continuation can mend it."""
    rng = random.Random(8)
    seen = {True: 0, False: 0}
    for _ in range(50):
        pairs = draw_pairs(rng, "abc")
        for _ in range(10):
            left, other = ("".join(rng.choices("abc", k=rng.choice((2, 3, 3, 4)))) for _ in Side)
            right = rng.choice((other, disturb(rng, left, pairs, "abc")))
            sources = interleave(rng, left, right)
            matcher, so_far = Matcher(depend_by(pairs)), {LEFT: "", RIGHT: ""}
            for side, item in sources:
                so_far[side] += item
                mendable = may_become_equivalent(so_far[LEFT], so_far[RIGHT], pairs)
                assert (matcher.add(side, item) is None) == mendable, (pairs, sources)
                seen[mendable] += 1
                if not mendable:
                    break
        extend.cache_clear()
        close_under_swaps.cache_clear()
    assert min(seen.values()) > 100, seen


# --- Against a plain transcription, with buckets -------------------------------------------------


def transcribe(
    sources: list[Source], depends: Callable[[str, str], bool], same: Callable[[str, str], bool]
) -> int | None:
    """Run the published algorithm word for word, on lists, with no index of any kind."""
    unmatched: dict[Side, list[str]] = {LEFT: [], RIGHT: []}
    for index, (side, x) in enumerate(sources):
        own, other = unmatched[side], unmatched[side.other]
        minimal = [
            at
            for at, y in enumerate(other)
            if same(x, y) and not any(depends(z, y) for z in other[:at])
        ]
        if minimal and not any(depends(z, x) for z in own):
            del other[minimal[0]]
        elif any(depends(x, y) for y in other):
            return index
        else:
            own.append(x)
    return len(sources) if any(unmatched.values()) else None


def depends_on_key(x: str, y: str) -> bool:
    """Relate items such as "k1" by key; small letters commute with small; marks block all."""
    if "#" in (x, y):
        return True
    return x[0].lower() == y[0].lower() and not (x[0].islower() and y[0].islower())


def bucket_by_key(item: str) -> Hashable:
    return GLOBAL if item in "#!" else item[0].lower()


def spare_bangs(depends: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    """Make "!" a global item that depends on one key and on marks only."""

    def depends_on_bang(x: str, y: str) -> bool:
        if "!" in (x, y):
            return "#" in (x, y) or "k" in (x[0].lower(), y[0].lower())
        return depends(x, y)

    return depends_on_bang


def test_differential_buckets_change_no_verdict() -> None:
    """Hold bucketed, plain and transcribed to the same index, on long and drifting streams."""
    rng = random.Random(15)
    depends = spare_bangs(depends_on_key)
    alphabet = ["k1", "k2", "k3", "K", "m1", "m2", "M", "p1", "p2", "#", "!"]
    ends: list[int | None] = []
    for _ in range(3_000):
        left = rng.choices(alphabet, k=rng.randrange(40))
        right = left.copy()
        for _ in range(100 if len(left) > 1 else 0):
            i = rng.randrange(len(left) - 1)
            if not depends(*right[i : i + 2]) or rng.random() < 0.01:
                right[i : i + 2] = reversed(right[i : i + 2])
        sources = interleave(rng, left, right)
        if rng.random() < 0.5:
            sources.sort(key=lambda source: source[0])
        expected = transcribe(sources, depends, lambda x, y: x == y)
        assert find_verdict(Matcher(depends), sources) == expected, sources
        assert find_verdict(Matcher(depends, bucket=bucket_by_key), sources) == expected, sources
        ends.append(expected)
    assert 500 < ends.count(None) < 2_900, ends.count(None)


def test_differential_equality_of_the_users_choice() -> None:
    """Compare letters without regard to case, where dependence does not regard it either."""
    rng = random.Random(16)

    def same(x: str, y: str) -> bool:
        return x.lower() == y.lower()

    for _ in range(1_000):
        pairs = draw_pairs(rng, "abc")
        left = "".join(rng.choices("abc", k=rng.randrange(7)))
        right = disturb(rng, left, pairs, "abc")
        expected = right in close_under_swaps(left, pairs)
        shouted = ["".join(rng.choice((c, c.upper())) for c in word) for word in (left, right)]
        matcher = Matcher[str](
            lambda x, y, pairs=pairs: frozenset((x.lower(), y.lower())) in pairs,  # type: ignore[misc]
            same=same,
        )
        assert (find_verdict(matcher, interleave(rng, *shouted)) is None) == expected


# --- Cost ----------------------------------------------------------------------------------------


def count_calls(
    left: list[int],
    right: list[int],
    depends: Callable[[int, int], bool],
    bucket: Callable[[int], Hashable] | None,
) -> int:
    """Source the left stream whole, then the right; return how often `depends` was asked."""
    calls = 0

    def depends_counted(x: int, y: int) -> bool:
        nonlocal calls
        calls += 1
        return depends(x, y)

    matcher = Matcher(depends_counted, bucket=bucket)
    for side, stream in ((LEFT, left), (RIGHT, right)):
        for item in stream:
            assert matcher.add(side, item) is None
    assert matcher.finish() is None
    return calls


def identify(item: int) -> Hashable:
    return item


@pytest.mark.parametrize(
    ("left", "right", "depends", "bucket"),
    [
        pytest.param(range(5_000), range(5_000), depends_fully, None, id="sequence"),
        pytest.param([7] * 5_000, [7] * 5_000, depends_never, None, id="one-value"),
        pytest.param(range(5_000), range(4_999, -1, -1), depends_never, identify, id="multiset"),
        pytest.param(
            range(5_000),
            sorted(range(5_000), key=lambda item: item % 50),
            lambda x, y: x % 50 == y % 50,
            lambda item: item % 50,
            id="by-key",
        ),
        pytest.param(
            range(5_000),
            sorted(range(5_000), key=lambda item: (-(-item // 100), item % 100 == 0, -item)),
            lambda x, y: x % 100 == 0 or y % 100 == 0,
            lambda item: GLOBAL if item % 100 == 0 else item,
            id="markers",
        ),
    ],
)
def test_the_cost_grows_with_the_items_not_their_square(
    left: Iterable[int],
    right: Iterable[int],
    depends: Callable[[int, int], bool],
    bucket: Callable[[int], Hashable] | None,
) -> None:
    """Allow four questions an item: 5,000 items a side all drift apart before any can match."""
    assert count_calls(list(left), list(right), depends, bucket) <= 40_000
