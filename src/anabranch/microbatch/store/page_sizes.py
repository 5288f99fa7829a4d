"""Page sizes: the size of one value of the state store, and the reasons for it.

One value is one round trip to the state store, and is read and written whole. So a page is large enough that a
batch reads few of them, and small enough that a batch that changes a few rows does not rewrite many others.
"""

from __future__ import annotations

HASHED_PAGES = 256
"""Pages of a hashed book, per shard. Fixed: the page of a key depends on the number."""

ORDERED_VALUES = 32
"""Values of an ordered page; a page of more than twice as many is divided. A value is a state or a marker
with the states before it, and a page is run again as a whole, so pages are short."""

ORDERED_BYTES = 1 << 16
"""Bytes of an ordered page of large values, which has fewer of them: a changed page is written whole."""

ENTRY_ROWS = 1 << 16
"""Entries of one part of a page in columns: some megabytes, as a state may have many fields. A Python worker
process caches the table of all parts, so parts are seldom read."""

SLICE_ROWS = 1 << 20
"""Slices of one part of a page: they have few columns of integers, and are all read when windows close. Parts
of 65,536 made that a fifth slower."""

PENDING_OBJECTS = 4096
"""Pending events of a page, as objects: a batch decodes the pages with events that became stable."""

PENDING_ROWS = 1 << 16
"""Pending events of a page, in columns: reading a row is so cheap that round trips dominate."""
