"""Run a story's stream to its end; made to be killed.

Arguments: story, length, seed, folder, and, for a cluster, its master.
"""

import sys
from pathlib import Path

# The root of the repository, so that tests and examples are found as they are by pytest.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.inputs import LongStory, start

if __name__ == "__main__":
    from anabranch.spark.session.startup import start_session

    name, length, seed, folder, *master = sys.argv[1:]
    home = Path(folder)
    settings = {
        "spark.local.dir": str(home / "local"),
        "spark.sql.shuffle.partitions": "2",
        # It does not live long enough for the second compiler to pay.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    master = master[0] if master else "local[2]"
    spark = start_session(name="killed", master=master, ui=False, **settings)
    story = LongStory(name, int(length), int(seed))
    start(spark, story, home, home / "checkpoint", home / "out").awaitTermination()
    spark.stop()
