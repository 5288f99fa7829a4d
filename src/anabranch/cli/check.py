"""`anabranch check`: check that a program keeps its laws."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from anabranch.cli.flags import Json, Target
from anabranch.cli.target_module import load_program, load_strategies
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen
from anabranch.errors import InputError, MissingExtraError
from anabranch.model.program import Program

if TYPE_CHECKING:
    from anabranch.laws.reports import LawResult, RaisingFunction, Report

CASES = 300

_EVERYWHERE = "for all states"
"""The reason of a proof without assumptions; it is not printed."""

_CURE = (
    "mend the function; if such events do not occur, define `strategies` beside the program, "
    "which gives check the events to try"
)
"""The cure for a function that always raises."""

_STYLES = {
    "kept": ("✓ kept", "green"),
    "proved": ("✓ proved", "bold green"),
    "broken": ("✗ broken", "bold red"),
    "rounding": ("≈ rounding", "yellow"),
    "skipped": ("– skipped", "dim"),
}


def check(
    target: Target,
    /,
    *,
    cases: Annotated[
        int, Parameter(help=f"Number of cases to try for each law (default {CASES}).")
    ] = CASES,
    seed: Annotated[
        int, Parameter(help="Seed of the cases (default 0); a seed gives the same cases.")
    ] = 0,
    law: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=False, help="Check only this law (default all). May be repeated."
        ),
    ] = (),
    no_proof: Annotated[
        bool, Parameter(help="Only try cases; do not try to prove laws for all states.")
    ] = False,
    synthesise: Annotated[
        bool, Parameter(help="Search for a fork and a join that keep the laws, and print them.")
    ] = False,
    json: Json = False,
) -> int:
    """Check that a program keeps its laws, by proof or by generated cases."""
    screen = Screen(quiet=json)
    if cases < 1:
        raise InputError("--cases is not a number of cases", expected="1 or more", got=str(cases))
    names = tuple(_find_name(name) for name in law)
    program = load_program(target)
    if synthesise:
        return _synthesise(screen, program, cases, seed)
    report = _check_laws(screen, program, target, cases, seed, names)
    unproved = ""
    if not no_proof:
        report, unproved = _prove(screen, program, report)
    if json:
        screen.print_json({**report.to_json(), "unproved": unproved})
    else:
        _show(screen, program, report, target, names)
        if unproved:
            screen.write(f"\nTested with cases only; no proof: {unproved}", style="dim")
    return GOOD if report.ok else FOUND


def _find_name(name: str) -> str:
    from anabranch.laws import LAWS

    for law in LAWS:
        if name in (law.name, law.title) or name.replace("-", "_") == law.name:
            return law.name
    raise InputError(
        f"there is no law {name!r}",
        expected=f"one of {', '.join(law.name for law in LAWS)}",
        got=name,
    )


def _check_laws(
    screen: Screen, program: Program, target: str, cases: int, seed: int, laws: tuple[str, ...]
) -> Report:
    from anabranch.laws import check as check_laws

    with screen.follow("checking", cases) as progress:
        return check_laws(
            program,
            cases=cases,
            seed=seed,
            events=load_strategies(target),
            laws=laws or None,
            progress=lambda law, done, cases: progress.move(done, law, cases),
            target=target,
        )


def _prove(screen: Screen, program: Program, report: Report) -> tuple[Report, str]:
    """Return the report with its proofs, and the reason if the prover is not installed."""
    from anabranch.laws.proving.proof import attach, prove

    try:
        with screen.wait("proving"):
            return attach(report, prove(program)), ""
    except MissingExtraError as error:
        return report, f"{error.what}; {error.cure}"


def _show(
    screen: Screen, program: Program, report: Report, target: str, laws: tuple[str, ...]
) -> None:
    several = len(program.state_types) > 1 or len(program.forks) > 1
    rows = [_row(result, several=several) for result in report.results]
    screen.show_table(("law", "equation", "verdict", ">cases"), rows)
    _show_reasons(screen, report, several=several)
    for one in report.raising:
        _show_raising(screen, one)
    for result in report.results:
        if result.counterexample is not None:
            _show_case(screen, result, several=several)
    if report.ok:
        screen.print(f"\n[green]{program.name} keeps its laws[/]; seed {report.seed}")
    else:
        words = ["anabranch", "check", target, "--seed", str(report.seed)]
        words += ["--cases", str(report.cases)]
        words += [word for name in laws for word in ("--law", name)]
        screen.write(f"\nreproduce: {shlex.join(words)}")
    if not program.forks:
        screen.write(
            "\nThe program has no fork and join, so it runs on one node. To search for a pair:\n"
            f"  anabranch check {shlex.quote(target)} --synthesise"
        )


def _show_reasons(screen: Screen, report: Report, *, several: bool) -> None:
    """Print why laws were skipped, what a proof assumes, and where it stopped."""
    noted: dict[str, list[str]] = {}
    for result in report.results:
        if result.counterexample is None and result.reason not in ("", _EVERYWHERE):
            name = f"{result.law} ({result.subject})" if several else result.law
            noted.setdefault(result.reason, []).append(name)
    if noted:
        screen.print()
    for reason, names in noted.items():
        about = ", ".join(names) if len(names) < 3 else f"{len(names)} of them"
        screen.write(f"{about}: {reason}", indent=2, style="dim")


def _row(result: LawResult, *, several: bool) -> tuple[Any, ...]:
    from anabranch.laws.laws import find_law

    word, style = _STYLES[result.verdict]
    name = f"{result.law}\n  {result.subject}" if several and result.subject else result.law
    equation = find_law(result.law).equation.replace(", and ", "\n")
    return (name, equation, Text(word, style=style), result.cases or "")


def _show_case(screen: Screen, result: LawResult, *, several: bool) -> None:
    found = result.counterexample
    assert found is not None
    word, style = _STYLES[result.verdict]
    about = f" ({result.subject})" if several else ""
    screen.write(f"\n{word}: {result.law}{about}", style=style)
    screen.write(found.description, indent=2)
    rows = [
        ("at", found.where),
        ("expected", repr(found.expected)),
        ("got", repr(found.got)),
        ("to do", result.reason),
    ]
    for label, text in rows:
        if text:
            screen.write(f"{label + ':':<10}{text}", indent=2)
    screen.write("\nThe smallest case, to run:\n", indent=2)
    screen.show_code(found.code, indent=4)


def _show_raising(screen: Screen, one: RaisingFunction) -> None:
    """Print a function that always raises: its events are all rejected, so they break no law."""
    screen.write(f"\n✗ raises: {one.function}", style="bold red")
    screen.write(
        f"it raised in each of {one.cases} cases, so a run would reject every such event", indent=2
    )
    rows = [
        ("at", one.where),
        ("got", one.error),
        ("to do", _CURE),
    ]
    for label, text in rows:
        if text:
            screen.write(f"{label + ':':<10}{text}", indent=2)
    screen.write("\nThe smallest case, to run:\n", indent=2)
    screen.show_code(one.code, indent=4)


def _synthesise(screen: Screen, program: Program, cases: int, seed: int) -> int:
    from anabranch.laws.synthesis.synthesis import synthesise

    with screen.follow("searching for a fork and a join", cases) as progress:
        found = synthesise(
            program,
            cases=cases,
            seed=seed,
            progress=lambda what, done, of: progress.move(done, what, of),
        )
    if screen.quiet:
        screen.print_json(
            {
                "program": program.name,
                "found": found.found,
                "tried": found.tried,
                "code": found.code,
                "reason": found.reason,
                "report": None if found.report is None else found.report.to_json(),
            }
        )
    elif found.found:
        screen.print(f"[green]found[/] a fork and a join for {program.name}, to paste into it:\n")
        screen.show_code(found.code)
        screen.write(f"\n{found.reason}")
    else:
        screen.print(f"[yellow]no fork and join found[/] for {program.name}, {found.tried:,} tried")
        screen.write(found.reason, indent=2)
        for result in found.report.results if found.report is not None else ():
            if result.counterexample is not None:
                _show_case(screen, result, several=False)
    return GOOD if found.found else FOUND
