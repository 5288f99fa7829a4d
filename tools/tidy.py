"""Check the house rules that no linter knows, and name the cure for each breach.

Run by `make lint`. Prints one line for each finding and exits with 1 if there are any.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_FOLDER_MODULES = 14
NAMED_TWICE = frozenset(
    {
        "Default",  # A trigger and a declared change: words of users, both.
        "Result",  # What a window gives and what a query gives: likewise.
    }
)
EMPTY_NAMES = frozenset({"utils", "helpers", "common", "manager", "factory", "context", "engine"})
VARIANTS = frozenset({"util", "helper", "managers", "factories", "contexts", "engines"})

NAMELESS = frozenset({"__init__", "__main__"})
SKIPPED_FOLDERS = frozenset(
    {
        "build",
        "dist",
        "site",
        "htmlcov",
        "results",
        "spark-warehouse",
        "metastore_db",
        "__pycache__",
    }
)
HIDDEN_FOLDERS_CHECKED = frozenset({".ci"})
TEXT_SUFFIXES = frozenset(
    {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".json", ".properties", ".sh", ".cfg", ""}
)

# One letter of each word is in brackets, so that this file does not break its own rules.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:wor[k]|roo[t]|hom[e]/\w+|User[s]/\w+)/\w")
RETIRED = {
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE): cure
    for words, cure in {
        "frontie[r]s?": "write watermark",
        "wirin[g]|wire[d]": "write layout",
        "prefol[d]s?": "write early fold",
        "foresigh[t]": "write look-ahead",
        "unsai[d]": "write deferred output, or not emitted",
        "nobod[y]|somebod[y]|whoeve[r]": "name the thing: the shard, the sink, the operator",
        "say[s]|sai[d]|speak[s]?|hear[sd]?|tell[s]|tol[d]": "write returns, emits, writes or reports",
    }.items()
}
"""Words that the glossary does not have, and what to write."""
OPEN_END = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")


@dataclass(frozen=True)
class Finding:
    """One breach of a house rule: where it is, what it is, and what to do."""

    file: Path
    line: int
    problem: str
    cure: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}. Cure: {self.cure}."


Rule = Callable[[Path, str], Iterator[Finding]]


def find_empty_name(file: Path, text: str) -> Iterator[Finding]:
    """Refuse a module that is not named for the noun it serves."""
    parts = {file.stem.strip("_"), file.parent.name.strip("_")}
    for name in sorted(parts & (EMPTY_NAMES | VARIANTS)):
        yield Finding(
            file, 1, f"'{name}' says nothing", "put each thing in the noun it serves, or delete it"
        )


def find_long_module(file: Path, text: str) -> Iterator[Finding]:
    """Refuse a module too long to hold in the head."""
    length = text.count("\n")
    if length > MAX_MODULE_LINES:
        yield Finding(
            file,
            1,
            f"{length} lines, more than {MAX_MODULE_LINES}",
            "split it by idea, one noun for each file",
        )


def find_long_functions(file: Path, text: str) -> Iterator[Finding]:
    """Refuse a function that does not fit a screen."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            yield Finding(
                file,
                node.lineno,
                f"{node.name} has {length} lines, more than {MAX_FUNCTION_LINES}",
                "give its steps names and make them functions",
            )


def find_open_ends(file: Path, text: str) -> Iterator[Finding]:
    """Refuse what is not finished."""
    for line, content in enumerate(text.splitlines(), start=1):
        if found := OPEN_END.search(content):
            yield Finding(
                file, line, f"{found.group()} left in the code", "do it now, or open an issue"
            )


def find_machine_paths(file: Path, text: str) -> Iterator[Finding]:
    """Refuse what depends on whose machine it was written on."""
    for line, content in enumerate(text.splitlines(), start=1):
        if found := MACHINE_PATH.search(content):
            yield Finding(
                file,
                line,
                f"'{found.group()}…' is a path of one machine",
                "use a relative path, a temporary folder or an argument",
            )


def find_retired_words(file: Path, text: str) -> Iterator[Finding]:
    """Refuse words that the glossary has others for; tests are checked by their readers."""
    if file.parts[:1] not in (("src",), ("docs",), ("bench",), ("examples",)):
        return
    for line, content in enumerate(text.splitlines(), start=1):
        for words, cure in RETIRED.items():
            if found := words.search(content):
                yield Finding(file, line, f"'{found.group()}' is not a word of ours", cure)


PYTHON_RULES: tuple[Rule, ...] = (
    find_empty_name,
    find_long_module,
    find_long_functions,
    find_open_ends,
)
TEXT_RULES: tuple[Rule, ...] = (find_machine_paths, find_retired_words)


def find_crowded_folders(package: dict[Path, str]) -> Iterator[Finding]:
    """Refuse a folder in which a stranger has to search."""
    folders = Counter(file.parent for file in package)
    for folder, count in sorted(folders.items()):
        if count > MAX_FOLDER_MODULES:
            problem = f"{count} modules, more than {MAX_FOLDER_MODULES}"
            yield Finding(folder, 1, problem, "give what belongs together a folder of its own")


def find_shared_names(package: dict[Path, str]) -> Iterator[Finding]:
    """Refuse two modules, or two classes, of one name: one name, one thing."""
    known: dict[tuple[str, str], Path] = {}
    for file, text in sorted(package.items()):
        if file.stem in NAMELESS:
            continue
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        named = [("module", file.stem, 1), *(("class", c.name, c.lineno) for c in classes)]
        for kind, name, line in named:
            first = known.setdefault((kind, name), file)
            if first != file and name not in NAMED_TWICE:
                problem = f"{kind} '{name}' is also in {first}"
                yield Finding(file, line, problem, "name one of them for what sets it apart")


def find_missing_places(page: Path, text: str, package: dict[Path, str]) -> Iterator[Finding]:
    """Refuse a page that names a module which is not there."""
    root = Path("src/anabranch")
    for line, content in enumerate(text.splitlines(), start=1):
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", content):
            places = {root / name, Path(name)}
            if not places & package.keys() and not name.startswith(
                ("tests/", "tools/", "examples/")
            ):
                yield Finding(page, line, f"{name} is not there", "name the module as it is now")


def check_package(files: dict[Path, str]) -> list[Finding]:
    """Apply the rules that look at all modules of the package at once."""
    source = Path("src/anabranch")
    package = {f: text for f, text in files.items() if source in f.parents and f.suffix == ".py"}
    findings = [*find_crowded_folders(package), *find_shared_names(package)]
    for page in (Path("ARCHITECTURE.md"), Path("CONTRIBUTING.md")):
        findings += find_missing_places(page, files.get(page, ""), package)
    return findings


def check_file(file: Path, text: str) -> list[Finding]:
    """Apply every rule that fits the kind of file."""
    rules = TEXT_RULES + (PYTHON_RULES if file.suffix == ".py" else ())
    return [finding for rule in rules for finding in rule(file, text)]


def walk_text_files(folder: Path) -> Iterator[Path]:
    """Yield the files people write, not those that tools leave behind."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            hidden = entry.name.startswith(".") and entry.name not in HIDDEN_FOLDERS_CHECKED
            if not hidden and entry.name not in SKIPPED_FOLDERS:
                yield from walk_text_files(entry)
        # In a worktree `.git` is a file, which names the folder of its repository.
        elif entry.name == ".git" or entry.name.startswith(".coverage"):
            continue
        elif entry.suffix in TEXT_SUFFIXES:
            yield entry


def main() -> int:
    """Check the whole repository."""
    root = Path(__file__).resolve().parent.parent
    files = {
        file.relative_to(root): file.read_text(encoding="utf-8") for file in walk_text_files(root)
    }
    findings = [finding for file, text in files.items() for finding in check_file(file, text)]
    findings += check_package(files)
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} house rules broken; CONTRIBUTING.md says why they are there.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
