import itertools

import pytest

from anabranch import load
from anabranch.laws.searching.case_sources import Ground
from anabranch.model.targets import load_module

FILE = "tests/laws/good_programs.py"


@pytest.mark.parametrize("name", load_module(FILE).GOOD)
def test_every_cut_is_one_that_a_valid_plan_could_make(name):
    program = load(f"{FILE}:{name}")
    cuts = Ground(program).cuts
    tried = 0
    for fork in program.forks:
        for path in cuts.paths(fork.parent, fork):
            within = cuts.everything
            for step in path:
                options = cuts.options(step[0].parent, within, (step,), fork)
                within = options[0].side(step[1])[1]
            for seed in cuts.seeds(fork, within)[::7]:
                for how in ("bare", "left", "right", "both"):
                    cut = cuts.fill(fork, within, seed, how)
                    tried += 1
                    assert len(cut.left)
                    assert len(cut.right)
                    assert program.state_type(fork.left).handles(cut.left.event_types())
                    assert program.state_type(fork.right).handles(cut.right.event_types())
                    for a, b in itertools.product(cut.left, cut.right):
                        assert not a.overlaps(b)
                        assert program.dependence.independent(a, b)
    assert tried or not program.forks


def test_states_of_every_type_are_reached():
    program = load(f"{FILE}:smart_home")
    cuts = Ground(program).cuts

    paths = {
        kind.name: [len(path) for path in cuts.paths(kind.name)] for kind in program.state_types
    }

    assert paths == {"home": [0], "temps": [1, 2, 2], "pressure": [1]}
