"""Several folds at once."""

from __future__ import annotations

from typing import Any


class Several:
    by = None

    def __init__(self, **folds: Any) -> None:
        self.folds = {}
        for name, one in folds.items():
            fold, read = one if isinstance(one, tuple) else (one, None)
            self.folds[name] = (fold, read)

    @property
    def zero(self) -> Any:
        return tuple(fold.zero for fold, _ in self.folds.values())

    init = zero

    def add(self, state: Any, event: Any) -> Any:
        out = []
        for s, (fold, read) in zip(state, self.folds.values()):
            if read is None:
                out.append(fold.add(s))
            else:
                out.append(
                    fold.add(s, getattr(event, read) if isinstance(read, str) else read(event))
                )
        return tuple(out)

    def join(self, a: Any, b: Any) -> Any:
        return tuple(f.join(x, y) for (f, _), x, y in zip(self.folds.values(), a, b))

    def value(self, state: Any) -> Any:
        return {n: f.value(s) for (n, (f, _)), s in zip(self.folds.items(), state)}

    def __repr__(self) -> str:
        return f"Several({self.folds!r})"
