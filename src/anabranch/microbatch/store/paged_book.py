"""Paged books: log-structured pages. A batch appends one, and pages of similar size are merged.

So there are few pages, and each row is rewritten seldom. A page is written in parts, each one value of
the store. The cover lists the pages; it is written with the batch and read first, so that a missing page is
always an error and never a wrong result.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from anabranch.microbatch.store.state_store import Reader, Store, read_known_page

Content = TypeVar("Content")

_COVER = "cover"


class BookPage(NamedTuple):
    """A page: its number of rows, its range, and its number of parts."""

    number: int
    rows: int
    first: int
    last: int
    parts: int


class Cover(NamedTuple):
    """The owner's data about a book, the next free number, and the pages, the oldest first."""

    about: Any
    free: int
    pages: list[BookPage]


class PagedBook(ABC, Generic[Content]):
    """A book during one batch; a subclass defines the content of pages."""

    def __init__(self, store: Store, name: str, about: Any, part_rows: int) -> None:
        self._store = store
        self._name = name
        self._part_rows = part_rows
        self._about, self._free, self._pages = read_cover(store) or Cover(about, 0, [])

    @abstractmethod
    def _join(self, page: BookPage, newer: Content) -> Content:
        """Return the content of a page, merged with newer content."""

    @abstractmethod
    def _measure(self, content: Content) -> tuple[int, int, int]:
        """Return the number of rows, and their range."""

    @abstractmethod
    def _pack(self, content: Content, rows: slice) -> bytes:
        """Return some of the rows as bytes."""

    def _append(self, content: Content) -> tuple[BookPage, Content]:
        """Write a page; merge the last ones with it unless they are much larger."""
        rows, first, last = self._measure(content)
        while self._pages and self._pages[-1].rows <= 2 * rows:
            content = self._join(self._pages[-1], content)
            rows, first, last = self._measure(content)
            self._remove(self._pages[-1:])
        starts = range(0, max(rows, 1), self._part_rows)
        page = BookPage(self._free, rows, first, last, len(starts))
        for name, start in zip(_name_parts(page), starts, strict=True):
            data = self._pack(content, slice(start, start + self._part_rows))
            self._store.write_page(self._name, name, data)
        self._pages.append(page)
        self._free += 1
        return page, content

    def _remove(self, pages: list[BookPage]) -> None:
        for page in pages:
            for name in _name_parts(page):
                self._store.write_page(self._name, name, None)
            self._pages.remove(page)

    def _read_parts(self, page: BookPage) -> list[bytes]:
        return [read_known_page(self._store, self._name, name) for name in _name_parts(page)]

    def _write_cover(self, about: Any) -> None:
        cover = Cover(about, self._free, self._pages)
        self._store.write(_COVER, json.dumps(cover).encode())


def read_cover(store: Reader) -> Cover | None:
    """Return the cover of a store's book, if there is one."""
    data = store.read(_COVER)
    if data is None:
        return None
    about, free, pages = json.loads(data)
    return Cover(about, free, [BookPage(*page) for page in pages])


def read_parts(store: Reader, book: str) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of all pages of a book with their names, the oldest first."""
    cover = read_cover(store)
    for page in [] if cover is None else cover.pages:
        for name in _name_parts(page):
            yield name, read_known_page(store, book, name)


def _name_parts(page: BookPage) -> list[str]:
    return [f"{page.number}.{part}" for part in range(page.parts)]
