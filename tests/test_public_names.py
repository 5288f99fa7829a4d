"""The public modules: examples and pages import nothing else, and each of their names is documented."""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PUBLIC = (
    "anabranch",
    "anabranch.demo",
    "anabranch.joins",
    "anabranch.local",
    "anabranch.plan",
    "anabranch.savepoints",
    "anabranch.sinks",
    "anabranch.sources",
    "anabranch.spark",
    "anabranch.state",
    "anabranch.testing",
    "anabranch.windows",
)
BLOCK = re.compile(r"^ *```(?:python|py)\b[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^ *(?:>>>|\.\.\.) ?(.*)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILES = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "tests/examples").glob("*.py"))]
FILES += sorted((ROOT / "tests/acceptance").glob("*.py"))
INSIDE = {"anabranch.reference.verification"}
"""What tests of examples take from inside: plans are simulated one by one, which no user has to do."""


def read_code(file: Path) -> list[str]:
    """Return the Python of a file, or of the blocks and prompts of a page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return [text]
    blocks = [textwrap.dedent(body) for body in BLOCK.findall(text)]
    plain = [body for body in blocks if ">>>" not in body]
    return [*plain, "\n".join(line for line in PROMPT.findall(text) if "import" in line)]


def list_imports(code: str) -> list[tuple[str, str | None]]:
    """Return the modules of ours that code imports, each with the name that it takes."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(code.replace("…", "..."))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
    return [(module, name) for module, name in found if module.partition(".")[0] == "anabranch"]


def find_faults(imports: list[tuple[str, str | None]]) -> list[str]:
    faults = []
    for module, name in imports:
        if module in PUBLIC and (name is None or name in importlib.import_module(module).__all__):
            continue
        if f"{module}.{name}" in PUBLIC or module in INSIDE:
            continue
        faults.append(f"{module}: {name}")
    return faults


@pytest.mark.parametrize("file", [*PAGES, *FILES], ids=lambda file: str(file.relative_to(ROOT)))
def test_it_imports_public_names_only(file):
    imports = [found for code in read_code(file) for found in list_imports(code)]
    assert find_faults(imports) == []


def test_imports_are_found_and_private_ones_are_named():
    code = "from anabranch.model.events import EventType\nfrom anabranch import Program, nothing\n"
    assert find_faults(list_imports(code)) == [
        "anabranch.model.events: EventType",
        "anabranch: nothing",
    ]
    counted = sum(len(list_imports(code)) for page in PAGES for code in read_code(page))
    assert counted > 50, "the pages have code"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_sentence_of_its_own(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert list(module.__all__) == sorted(
        module.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n)
    )
    named = {key: getattr(module, key) for key in module.__all__}
    bare = [
        key
        for key, value in named.items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and (not value.__doc__ or value.__doc__.startswith(f"{key}("))
    ]
    assert bare == []


POSITIONAL = {
    "AfterWatermark": "early and late, in Beam's order",
    "Layout": "made by `choose_layout` only",
    "Result": "made by `run` only",
}
"""Classes with several optional arguments that need no keyword, and why."""


def list_optional(value):
    """Return the optional arguments of a call that can be given without their names."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # A builtin.
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in places and p.default is not p.empty]


def list_methods(cls):
    return [
        value for name, value in vars(cls).items() if name[0] != "_" and inspect.isfunction(value)
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_optional_arguments_need_their_names(name):
    module = importlib.import_module(name)
    named = {key: getattr(module, key) for key in module.__all__}
    functions = {key: value for key, value in named.items() if inspect.isfunction(value)}
    assert {key: found for key, f in functions.items() if (found := list_optional(f))} == {}
    # A class has at most one: its value, as in Sum(10), Windowing(window, trigger). Rows are tuples.
    classes = {
        key: value
        for key, value in named.items()
        if inspect.isclass(value) and not issubclass(value, tuple) and key not in POSITIONAL
    }
    calls = {key: [value, *list_methods(value)] for key, value in classes.items()}
    assert [k for k, found in calls.items() if max(len(list_optional(c)) for c in found) > 1] == []


def test_exceptions_to_named_arguments_are_needed():
    classes = {
        key: value
        for module in map(importlib.import_module, PUBLIC)
        for key in POSITIONAL.keys() & {*module.__all__}
        if not issubclass(value := getattr(module, key), tuple)
    }
    assert classes.keys() == POSITIONAL.keys()
    assert all(len(list_optional(value)) > 1 for value in classes.values())
