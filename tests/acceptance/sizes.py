"""How large the inputs of acceptance tests are: small, or with ANABRANCH_ACCEPTANCE=all those of real tasks."""

import os


def choose_size(*, small: int, full: int) -> int:
    """Return the size to test with."""
    return full if os.environ.get("ANABRANCH_ACCEPTANCE") == "all" else small
