from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set a cache folder for this test run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANABRANCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
