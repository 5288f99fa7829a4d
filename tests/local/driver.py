"""Run a case of `test_crashes` in a process of its own; made to be killed.

Arguments: the case, its folder, and "all" (the files that there are) or "on" (until it is stopped).
"""

import sys
from pathlib import Path

# The root of the repository, so that tests are found as they are by pytest.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.local.test_kills import CASES

if __name__ == "__main__":
    name, folder, how = sys.argv[1:]
    home = Path(folder)
    run = CASES[name].start(home / "in", home, available_now=how == "all", sync="batch")
    try:
        run.wait()
    except KeyboardInterrupt:
        assert not run.is_active
        print("stopped")  # noqa: T201
        sys.exit(130)
