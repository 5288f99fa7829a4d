"""The roster: who takes part, in which environment, at which workloads, and what it keeps."""

from dataclasses import dataclass, field

from bench.peers.environments import BYTEWAX, FLINK, OWN, PATHWAY, PYTHON, Environment
from bench.peers.inputs import Form
from bench.peers.workloads import Kind

SPARK_KEEPS = "RocksDB + changelog, each batch"


@dataclass(frozen=True)
class Contender:
    """One engine in one form. `refused` is why it leaves out a kind of workload.

    What has no answer only reads, and has no rank.
    """

    name: str
    title: str
    environment: Environment
    script: str
    how: str
    keeps: str
    form: Form = "parquet"
    refused: dict[Kind, str] = field(default_factory=dict)
    is_limit: bool = False
    has_answer: bool = True

    @property
    def is_ours(self) -> bool:
        """Say whether this is Anabranch."""
        return self.name.startswith("anabranch")


_NO_ROWS = "its Row form is measured on many keys only"
_NO_PANES = "panes are arrays, which its pandas form is for"
_NO_FOLD = "no fold that depends on order"

CONTENDERS = (
    Contender(
        "anabranch-local", "Anabranch, embedded", PYTHON, "local_job.py", "fused",
        "page log, synced each batch",
    ),
    Contender(
        "anabranch-fused", "Anabranch, fused source", OWN, "anabranch_job.py", "fused", SPARK_KEEPS
    ),
    Contender("anabranch", "Anabranch, any frame", OWN, "anabranch_job.py", "frame", SPARK_KEEPS),
    Contender(
        "spark-native",
        "Spark, native operators",
        OWN,
        "spark_job.py",
        "native",
        f"{SPARK_KEEPS}; w2, w3: on the driver, lost",
        refused={"ewma": _NO_FOLD},
    ),
    Contender(
        "spark-tws-pandas", "Spark, transformWithStateInPandas", OWN, "spark_job.py",
        "tws-pandas", SPARK_KEEPS,
    ),
    Contender(
        "spark-tws-row", "Spark, transformWithState", OWN, "spark_job.py", "tws-row", SPARK_KEEPS,
        refused={"barrier": _NO_ROWS, "pages": _NO_ROWS, "windows": _NO_PANES},
    ),
    Contender(
        "spark-aipws", "Spark, applyInPandasWithState", OWN, "spark_job.py", "aipws", SPARK_KEEPS
    ),
    Contender(
        "spark-nothing", "Spark, a `mapInArrow` that does nothing", OWN, "spark_job.py", "nothing",
        "nothing", has_answer=False,
    ),
    Contender(
        "pyflink", "PyFlink, Python functions", FLINK, "flink_job.py", "python",
        "heap, checkpoint each 5 s", "csv",
    ),
    Contender(
        "flink-sql", "Flink SQL", FLINK, "flink_job.py", "sql", "heap, checkpoint each 5 s", "csv",
        refused={"ewma": f"{_NO_FOLD} among its built-ins"},
    ),
    Contender(
        "bytewax", "Bytewax, event by event", BYTEWAX, "bytewax_job.py", "event",
        "SQLite, each second",
    ),
    Contender(
        "bytewax-arrays", "Bytewax, NumPy arrays", BYTEWAX, "bytewax_job.py", "arrays",
        "SQLite, each second", refused={"ewma": f"NumPy has {_NO_FOLD}"},
    ),
    Contender(
        "bytewax-bare", "Bytewax, NumPy arrays, no recovery", BYTEWAX, "bytewax_job.py",
        "arrays-bare", "nothing", refused={"ewma": f"NumPy has {_NO_FOLD}"},
    ),
    Contender(
        "pathway", "Pathway, static mode", PATHWAY, "pathway_job.py", "static", "nothing",
        "csv-header",
    ),
    Contender("python", "Plain Python loop", PYTHON, "loops_job.py", "plain", "nothing"),
    Contender(
        "limit", "The limit: a Numba loop on the same files", PYTHON, "loops_job.py", "limit",
        "nothing", is_limit=True,
    ),
)  # fmt: skip


def choose_contenders(only: tuple[str, ...]) -> tuple[Contender, ...]:
    """Return those whose name begins with one of the given words; all, if none is given."""
    if not only:
        return CONTENDERS
    chosen = tuple(c for c in CONTENDERS if any(c.name.startswith(word) for word in only))
    for word in only:
        if not any(contender.name.startswith(word) for contender in CONTENDERS):
            known = ", ".join(contender.name for contender in CONTENDERS)
            raise ValueError(f"There is no contender '{word}'. Existing: {known}.")
    return chosen
