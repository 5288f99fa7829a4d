import pytest

from tests.runtimes.runtimes import Place


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path) -> Place:
    """Return where a runtime may work; Spark starts only for those that ask for it."""
    return Place(lambda: request.getfixturevalue("spark"), tmp_path)
