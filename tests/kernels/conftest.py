from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile into a folder of this run's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANABRANCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
