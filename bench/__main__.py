"""List the benchmarks, or run one or all of them: `python -m bench [name … | all]`.

A benchmark is a module with `measure`, or a folder with a `__main__` that has its own options:
`python -m bench peers --n 1000000`.
"""

import ast
import importlib
import json
import platform
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results"


def list_benches(folder: Path = FOLDER) -> dict[str, str]:
    """Map the name of each benchmark to its question, without importing any."""
    files = sorted(file for file in folder.glob("*.py") if not file.stem.startswith("_"))
    found = {file.stem: read_question(file) for file in files}
    return found | {name: read_question(file) for name, file in list_folders(folder).items()}


def list_folders(folder: Path = FOLDER) -> dict[str, Path]:
    """Map the name of each benchmark that is a folder to the file that runs it."""
    return {file.parent.name: file for file in sorted(folder.glob("*/__main__.py"))}


def read_question(file: Path) -> str:
    """Return the first line of a benchmark's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else "(no docstring)"


def compare(rates: dict[str, float]) -> dict[str, float]:
    """Divide every rate by the first, which is the baseline."""
    baseline = next(iter(rates.values()))
    return {contender: rate / baseline for contender, rate in rates.items()}


def run_bench(name: str, question: str) -> None:
    """Run one benchmark, print its ratios and write them as JSON."""
    module = importlib.import_module(f"bench.{name}")
    detailed = hasattr(module, "measure_details")
    rates, details = module.measure_details() if detailed else (module.measure(), {})
    ratios = compare(rates)
    print(f"{name}: {question}")
    for contender, rate in rates.items():
        print(f"  {contender:<40} {rate:>16,.0f} events/s {ratios[contender]:>9.2f} x")
        for detail, share in details.get(contender, {}).items():
            print(f"    {detail:<38} {share:>16.0%}")
    record = {
        "bench": name,
        "question": question,
        "events_per_s": rates,
        "ratios": ratios,
        "shares": details,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def run_folder(name: str, arguments: list[str]) -> int:
    """Run a benchmark that is a folder; it prints and writes its own results."""
    return int(importlib.import_module(f"bench.{name}.__main__").main(arguments))


def main(arguments: list[str]) -> int:
    """List the benchmarks, or run those that are named."""
    benches = list_benches()
    if not arguments:
        for name, question in benches.items():
            print(f"  {name:<24} {question}")
        print("Run one: make bench ARGS=name" if benches else "No benchmarks yet.")
        return 0
    folders = list_folders()
    if arguments[0] in folders:
        return run_folder(arguments[0], arguments[1:])
    chosen = list(benches) if arguments == ["all"] else arguments
    for name in chosen:
        if name not in benches:
            known = ", ".join(benches) or "none yet"
            print(f"There is no benchmark '{name}'. Existing: {known}.", file=sys.stderr)
            return 2
    for name in chosen:
        if name in folders:
            run_folder(name, [])
        else:
            run_bench(name, benches[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
