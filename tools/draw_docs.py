"""Bring the page "How a program is cut" up to date: its pictures, and what `explain` says in it.

Run it as `python tools/draw_docs.py` after a change of the planner, and read the difference. A block
of the page that follows `<!-- shown: NAME -->` is written anew from `SHOWN[NAME]`.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from anabranch.model.program import Program
from anabranch.model.targets import load
from anabranch.plan.drawing.plan_picture import draw
from anabranch.plan.explanation import compare, explain, write_comparison
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Rates, assume_rates, read_rates
from anabranch.plan.transitions import transition
from anabranch.spark.run_explanation import describe_run

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = DOCS / "how-a-program-is-cut.md"
BLOCK = re.compile(r"(<!-- shown: ([\w-]+) -->\n```\w+\n).*?(```\n)", re.DOTALL)

PICTURES = {
    "max-temperature": ("max_temperature", "best", "Maximum temperature"),
    "key-counter-greedy": ("key_counter", "greedy", "Key counter, as published"),
    "key-counter-best": ("key_counter", "best", "Key counter, at least cost"),
    "inc-dec": ("inc_dec", "best", "Increments and decrements"),
    "smart-home": ("smart_home", "best", "Smart home"),
    "taxi-tips": ("taxi_tips", "best", "Taxi tips"),
    "fraud": ("fraud", "best", "Fraud: two busy branches, cut into lanes"),
    "value-barrier": ("value_barrier", "best", "Values and barriers, eight streams"),
}


def load_example(name: str) -> tuple[Program, Rates]:
    """Return a program and the rates declared for it on this page."""
    program = load(str(ROOT / "examples" / f"{name}.py") + f":{name}")
    return program, read_rates(program, str(DOCS / "rates" / f"{name}.json"))


def draw_pictures() -> dict[str, str]:
    """Return every picture by its file name."""
    drawn = {}
    for file, (name, optimizer, title) in PICTURES.items():
        program, rates = load_example(name)
        plan = OPTIMIZERS[optimizer](program, rates, ())
        drawn[f"{file}.svg"] = draw(program, plan, rates, title)
    return drawn


def show_plan(name: str, optimizer: str = "best") -> str:
    """Return what `explain` says of an example."""
    return str(explain(*load_example(name), optimizer))


def show_sequential() -> str:
    """Return what `explain` says of a smart home whose states can't be forked."""
    home, _ = load_example("smart_home")
    handlers = home.initial.handlers.values()
    depends = [part for part in home._parts if type(part).__name__ == "Depends"]
    program = Program(*handlers, *depends, init=home.init, name="smart_home_in_one_state")
    return str(explain(program, assume_rates(program)))


def show_comparison() -> str:
    """Return the optimizers side by side on the key counter."""
    return write_comparison(compare(*load_example("key_counter")))


def show_transition() -> str:
    """Return what has to happen when key 2 of the key counter grows hot."""
    program, rates = load_example("key_counter")
    calm = replace(OPTIMIZERS["keyed"](program, rates, ()), name="calm")
    busy = replace(OPTIMIZERS["greedy"](program, rates, ()), name="busy")
    return transition(program, calm, busy).describe() + "\n"


def show_run(name: str, shards: int) -> str:
    """Return what `explain` says of an example on Spark."""
    program, _ = load_example(name)
    return f"{describe_run(program, shards=shards)}\n"


SHOWN: dict[str, Callable[[], str]] = {
    "max-temperature": lambda: show_plan("max_temperature"),
    "key-counter-greedy": lambda: show_plan("key_counter", "greedy"),
    "key-counter-rates": lambda: (DOCS / "rates" / "key_counter.json").read_text(encoding="utf-8"),
    "key-counter-comparison": show_comparison,
    "inc-dec": lambda: show_plan("inc_dec"),
    "smart-home": lambda: show_plan("smart_home"),
    "spark-smart-home": lambda: show_run("smart_home", 3),
    "sequential": show_sequential,
    "transition": show_transition,
}


def fill_page(text: str) -> str:
    """Return the page with every shown block written anew."""
    return BLOCK.sub(lambda found: found[1] + SHOWN[found[2]]() + found[3], text)


def main() -> int:
    """Write the pictures and the page."""
    for name, drawing in draw_pictures().items():
        (DOCS / "images" / name).write_text(drawing, encoding="utf-8")
        print(f"docs/images/{name}")
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print("docs/how-a-program-is-cut.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
