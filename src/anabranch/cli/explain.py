"""`anabranch explain`: show which events a program can process in parallel, its plan, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.text import Text
from rich.tree import Tree

from anabranch.cli.flags import Json, Target
from anabranch.cli.target_module import TargetModule, load_material
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen, count_things
from anabranch.errors import InputError
from anabranch.model.events import Event
from anabranch.plan.drawing.plan_picture import draw
from anabranch.plan.explanation import (
    APART,
    Explanation,
    Rival,
    describe_cost,
    describe_levels,
    describe_node,
    rival_rows,
    write_comparison,
)
from anabranch.plan.explanation import (
    compare as compare_optimizers,
)
from anabranch.plan.explanation import (
    explain as explain_plan,
)
from anabranch.plan.layout_reasons import draw_layout
from anabranch.plan.pricing.duties import Duty, count_nodes, name_rate, name_share
from anabranch.plan.pricing.rates import Rates, assume_rates, read_rates, sample_rates
from anabranch.spark.run_explanation import RunExplanation, describe_run

RATES_HELP = """JSON file with a list of rates, in events per second: {"type": "Inc", "key": 1, "channel": "a", "rate": 100, \
"machine": "E1"}. Without it, rates are sampled from the list `events` beside the program."""


def explain(  # noqa: PLR0913 - one for each flag
    target: Target,
    /,
    *,
    rates: Annotated[str | None, Parameter(help=RATES_HELP)] = None,
    sample: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Sample rates from a file of events: .jsonl, .parquet, .csv, or - for standard input.",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        Parameter(
            help="Number of shards on Spark (default 16; 1 or 4 where a run folds events as it "
            "reads them from files)."
        ),
    ] = None,
    optimizer: Annotated[
        Literal["best", "greedy", "hybrid", "keyed", "sequential"] | None,
        Parameter(
            help="Optimizer that plans for nodes of your own: best, greedy, hybrid, keyed or "
            "sequential (default best)."
        ),
    ] = None,
    machine: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=False,
            help="Machine that nodes may run on, in addition to those of the rates; the first is "
            "the central one. May be repeated.",
        ),
    ] = (),
    compare: Annotated[bool, Parameter(help="Compare the plans of all optimizers.")] = False,
    svg: Annotated[
        str | None,
        Parameter(
            help="Draw the plan on Spark into this SVG file; with --optimizer, the optimizer's plan."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Show which events a program can process in parallel, its layout on Spark, its plan, and why.

    The exit code is 1 if a node of the optimizer's plan can't keep up with the rates.
    """
    check_shards(shards)
    screen = Screen(quiet=json)
    material = load_material(target)
    found, origin = find_rates(material, rates, sample)
    explanation = explain_plan(material.program, found, optimizer or "best", machine)
    spark = describe_run(material.program, material.channels, shards=shards)
    rivals = compare_optimizers(material.program, found, machine) if compare else []
    if svg is not None:
        shown = explanation.plan if optimizer else replace(spark.plan, name="Spark")
        _write_drawing(svg, draw(spark.program, shown, found))
    if json:
        document = {**explanation.to_json(), "rates_from": origin, "svg": svg}
        document["on_spark"] = spark.to_json()
        if compare:
            document["optimizers"] = [rival.to_json() for rival in rivals]
        screen.print_json(document)
    else:
        _print(screen, explanation, spark, rivals, origin)
    if svg is not None:
        screen.write(f"\nwritten   {svg}")
    return GOOD if explanation.keeps_up else FOUND


def check_shards(shards: int | None) -> None:
    """Raise `InputError` if the number of shards is below 1."""
    if shards is not None and shards < 1:
        raise InputError(
            "--shards is not a number of shards", expected="1 or more", got=str(shards)
        )


def _print(
    screen: Screen,
    explanation: Explanation,
    spark: RunExplanation,
    rivals: list[Rival],
    origin: str,
) -> None:
    if screen.out.is_terminal:
        _show(screen, explanation, rivals, origin)
        _show_run(screen, spark)
        return
    screen.write(f"{explanation}\nrates\n  {origin}\n\n{spark}")
    if rivals:
        screen.write(f"\n{write_comparison(rivals)}".rstrip("\n"))


def find_rates(material: TargetModule, rates: str | None, sample: str | None) -> tuple[Rates, str]:
    """Return the rates, and their origin: declared, sampled, or assumed."""
    program = material.program
    if rates is not None and sample is not None:
        raise InputError("rates are given twice", expected="--rates or --sample", got="both")
    if rates is not None:
        return read_rates(program, rates), f"declared in {rates}"
    if sample is not None:
        from anabranch.reference.event_files import read_items

        events = [item for item in read_items(program, (sample,)) if isinstance(item, Event)]
        return sample_rates(program, events), f"{count_things(len(events), 'event')} of {sample}"
    events = [item for item in material.items if isinstance(item, Event)]
    if events:
        counted = count_things(len(events), "event")
        return sample_rates(program, events), f"the {counted} beside the program"
    return assume_rates(program), "assumed: markers 1/s, everything else 100/s"


def _write_drawing(file: str, drawing: str) -> None:
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(drawing)
    except OSError as error:
        raise InputError(f"{file} can't be written", got=str(error)) from error


def _show(screen: Screen, explanation: Explanation, rivals: list[Rival], origin: str) -> None:
    """Print the explanation in colour."""
    structure, plan = explanation.structure, explanation.plan
    screen.print(f"[bold]{explanation.program.name}[/]: {structure.kind}, {count_nodes(plan)}\n")
    event_types = [event_type.__name__ for event_type in explanation.program.event_types]
    rows = [[Text(row[0], style="bold"), *map(_colour, row[1:])]
            for row in explanation.dependence_rows()]  # fmt: skip
    screen.show_table(["depends", *event_types], rows)
    screen.print()
    screen.show_table(
        ["type", "role"],
        [(role.event_type.__name__, role.describe()) for role in structure.roles],
    )
    screen.print("\n[bold]cut[/]")
    for line in describe_levels(structure.levels):
        screen.write(f"  {line}")
    screen.print(f"\n[bold]plan[/] [dim]{plan.name}; rates: {origin}[/]")
    screen.out.print(_grow_tree(explanation))
    screen.print("\n[bold]cost[/]")
    for line in describe_cost(explanation.cost):
        screen.write(f"  {line}")
    for title, texts in (
        ("reasons", explanation.reasons),
        ("why one node?", [obstacle.text for obstacle in explanation.obstacles]),
    ):
        if texts:
            screen.print(f"\n[bold]{title}[/]")
        for text in texts:
            screen.write(f"  • {text}")
    if rivals:
        screen.print()
        head, *rest = rival_rows(rivals)
        columns = [head[0], *(f">{name}" for name in head[1:-1]), head[-1]]
        screen.show_table(columns, rest)


def _show_run(screen: Screen, run: RunExplanation) -> None:
    """Print the layout on Spark: its tree, where each event type runs, and the reasons."""
    screen.print(f"\n[bold]{run.plan.name}[/]")
    for line in draw_layout(run.plan):
        screen.write(f"  {line}")
    screen.print()
    screen.show_table(
        ["event type", "runs", "because"],
        [(found.event_type, found.place, found.why) for found in run.types],
    )
    screen.print()
    for line in (*run.fields, *run.lines()):
        screen.write(f"  • {line}")


def _colour(cell: str) -> Text:
    return Text(cell, style="dim" if cell == APART else "yellow" if cell == "always" else "cyan")


def _grow_tree(explanation: Explanation) -> Tree:
    """Return the plan as a tree of nodes."""
    several = len({duty.node.state for duty in explanation.duties}) > 1
    branches: dict[str, Tree] = {}
    for duty in explanation.duties:
        label = _name_duty(duty, several=several)
        above = branches.get(duty.path.rpartition(".")[0])
        branches[duty.path] = Tree(label) if above is None else above.add(label)
    return branches["0"]


def _name_duty(duty: Duty, *, several: bool) -> Text:
    style = "bold magenta" if duty.synchronises else "bold" if len(duty.node.slices) else "dim"
    label = Text(describe_node(duty), style=style)
    details = [name_rate(duty.rate)] if duty.loads else []
    details += [f"syncs {name_rate(duty.syncs)}"] if duty.syncs else []
    details += [f"{name_share(duty.busy)} busy"] if duty.busy else []
    details += [duty.node.state] if several else []
    details += [f"at {duty.node.machine}"] if duty.node.machine else []
    busy = "red" if duty.busy > 1 else "dim"
    return label.append(f"  {' · '.join(details)}" if details else "", style=busy)
