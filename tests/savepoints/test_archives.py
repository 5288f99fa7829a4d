"""Archives: what is packed comes out as it was, and one that was made to do harm leaves nothing."""

import gzip
import hashlib
import io
import pickle
import stat
import tarfile
import zipfile

import pytest

from anabranch.savepoints.archives import (
    HostileArchiveError,
    Limits,
    export_archive,
    import_archive,
)
from anabranch.savepoints.drafts import SavepointExistsError
from anabranch.savepoints.folders import (
    DamagedSavepointError,
    ForbiddenFileError,
    open_savepoint,
    sum_manifest,
)
from anabranch.savepoints.manifest import FileRecord, ManifestError, SavepointError, write_manifest
from tests.savepoints.folders import describe, list_tree, make_savepoint

KINDS = ["tar.gz", "zip"]


@pytest.fixture
def folder(tmp_path):
    return make_savepoint(tmp_path / "made" / "one")


def read_files(folder):
    return {p: (folder / p).read_bytes() for p in list_tree(folder) if (folder / p).is_file()}


@pytest.mark.parametrize("kind", ["tar.gz", "tgz", "zip"])
def test_what_is_packed_comes_out_as_it_was(tmp_path, folder, kind):
    savepoint = open_savepoint(folder)
    first, second = (export_archive(savepoint, tmp_path / f"{n}.{kind}") for n in "ab")
    assert first.read_bytes() == second.read_bytes()
    unpacked = import_archive(first, tmp_path / "there" / "other")
    assert read_files(unpacked) == read_files(folder)
    assert open_savepoint(unpacked).manifest == savepoint.manifest
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{kind}", f"b.{kind}", "made", "there"]


def test_bytes_do_not_tell_when_or_where_an_archive_was_made(tmp_path, folder):
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    for path, data in read_files(folder).items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes(data)
        (copy / path).chmod(0o600)
    for kind in KINDS:
        one = export_archive(open_savepoint(folder), tmp_path / f"one.{kind}")
        two = export_archive(open_savepoint(copy), tmp_path / f"two.{kind}")
        assert one.read_bytes() == two.read_bytes()


def test_a_damaged_savepoint_is_not_packed(tmp_path, folder):
    savepoint = open_savepoint(folder)
    (folder / "state/part-0.parquet").write_bytes(b"")
    with pytest.raises(DamagedSavepointError):
        export_archive(savepoint, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_an_archive_is_never_overwritten_nor_a_folder(tmp_path, folder):
    file = export_archive(open_savepoint(folder), tmp_path / "a.zip")
    with pytest.raises(SavepointExistsError):
        export_archive(open_savepoint(folder), file)
    with pytest.raises(SavepointExistsError):
        import_archive(file, folder)


def test_the_name_tells_the_kind(tmp_path, folder, message):
    with pytest.raises(SavepointError) as error:
        export_archive(open_savepoint(folder), tmp_path / "a.rar")
    message("archive_of_no_kind", str(error.value))
    with pytest.raises(SavepointError) as error:
        import_archive(tmp_path / "none.zip", tmp_path / "x")
    message("archive_that_is_not_there", str(error.value).replace(str(tmp_path), "FOLDER"))


# --- archives that are hostile, each really made -------------------------------------------------


class Tar:
    """Makes a .tar.gz, member by member, without a second thought."""

    def __init__(self, file):
        self.file = file
        self.raw = io.BytesIO()
        self.archive = tarfile.open(fileobj=self.raw, mode="w")  # noqa: SIM115 - `finish` closes it

    def add(self, name, data=b"", **about):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        for key, value in about.items():
            setattr(info, key, value)
        self.archive.addfile(info, io.BytesIO(data))

    def add_link(self, name, to):
        self.add(name, type=tarfile.SYMTYPE, linkname=to)

    def finish(self):
        self.archive.close()
        self.file.write_bytes(gzip.compress(self.raw.getvalue()))


class Zip:
    """Makes a .zip, member by member, without a second thought."""

    def __init__(self, file):
        self.file = file
        self.archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)

    def add(self, name, data=b"", mode=stat.S_IFREG | 0o644):
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That a name is there twice.
            self.archive.writestr(info, data)

    def add_link(self, name, to):
        self.add(name, to.encode(), stat.S_IFLNK | 0o777)

    def finish(self):
        self.archive.close()


MAKERS = {"tar.gz": Tar, "zip": Zip}


def try_archive(tmp_path, folder, kind, *extra, change=None, limits=None):
    """Import a good savepoint with members more, or with some changed; return the error."""
    archive = MAKERS[kind](tmp_path / f"evil.{kind}")
    members = {f"one/{path}": data for path, data in read_files(folder).items()}
    for name, data in (change(members) if change else members).items():
        archive.add(name, data)
    for add in extra:
        add(archive)
    archive.finish()
    before = list_tree(tmp_path)
    with pytest.raises(SavepointError) as error:
        import_archive(archive.file, tmp_path / "there" / "x", limits or Limits())
    assert [path for path in list_tree(tmp_path) if path not in before] == ["there"]
    assert list((tmp_path / "there").iterdir()) == []
    assert str(archive.file) in str(error.value)
    return error.value


NAMES = {
    "absolute": "/tmp/anabranch-evil",
    "absolute_on_windows": "C:\\evil",
    "above": "one/../../evil",
    "above_at_once": "../evil",
    "backslash": "one\\..\\evil",
    "here": "one/./evil",
    "hidden": "one/.evil",
    "beside": "two/evil",
    "no_folder": "evil",
    "control": "one/e\nvil",
    "long": "one/" + "x" * 300,
    "deep": "one/" + "a/" * 50 + "x",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, folder, kind, name, message):
    error = try_archive(tmp_path, folder, kind, lambda a: a.add(NAMES[name], b"evil"))
    assert type(error) is HostileArchiveError
    if kind == "tar.gz" and name in ("absolute", "above", "beside"):
        message(f"archive_name_{name}", str(error).replace(str(tmp_path), "FOLDER"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("to", ["/etc/passwd", "manifest.json", "../../.."])
def test_a_link_is_refused(tmp_path, folder, kind, to, message):
    error = try_archive(tmp_path, folder, kind, lambda a: a.add_link("one/state/link", to))
    assert type(error) is HostileArchiveError
    if to == "/etc/passwd":
        text = str(error).replace(str(tmp_path), "FOLDER")
        message(f"archive_link_in_{kind.partition('.')[0]}", text)


@pytest.mark.parametrize(
    "about",
    [
        {"type": tarfile.LNKTYPE, "linkname": "one/manifest.json"},
        {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
        {"type": tarfile.BLKTYPE},
        {"type": tarfile.FIFOTYPE},
        {"type": tarfile.CONTTYPE},
        {"type": b"?"},
    ],
    ids=["hard link", "device", "block device", "pipe", "contiguous", "unknown"],
)
def test_what_is_no_plain_file_is_refused(tmp_path, folder, about):
    error = try_archive(tmp_path, folder, "tar.gz", lambda a: a.add("one/state/x", **about))
    assert type(error) is HostileArchiveError


@pytest.mark.parametrize("mode", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_what_is_no_plain_file_of_a_zip_is_refused(tmp_path, folder, mode):
    error = try_archive(tmp_path, folder, "zip", lambda a: a.add("one/state/x", mode=mode))
    assert type(error) is HostileArchiveError


def test_a_sparse_file_is_refused(tmp_path, folder):
    def add(archive):
        archive.add("one/state/x", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
            "GNU.sparse.name": "one/state/x", "GNU.sparse.realsize": str(1 << 24)},
            data=b"0\n".ljust(512, b"\0"))  # fmt: skip

    assert type(try_archive(tmp_path, folder, "tar.gz", add)) is HostileArchiveError


@pytest.mark.parametrize("kind", KINDS)
def test_one_name_twice_is_refused(tmp_path, folder, kind, message):
    data = (folder / "state/part-0.parquet").read_bytes()
    error = try_archive(tmp_path, folder, kind, lambda a: a.add("one/state/part-0.parquet", data))
    message("archive_with_a_file_twice", str(error).replace(str(tmp_path), "FOLDER")
            .replace(f"evil.{kind}", "evil"))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["one/STATE/part-9.parquet", "one/state/Part-0.parquet", "One/x"])
def test_names_that_differ_by_case_only_are_refused(tmp_path, folder, kind, name):
    error = try_archive(tmp_path, folder, kind, lambda a: a.add(name, b"x"))
    assert type(error) is HostileArchiveError


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_a_folder_too_is_refused(tmp_path, folder, kind):
    error = try_archive(tmp_path, folder, kind, lambda a: a.add("one/state", b"x"))
    assert type(error) is HostileArchiveError


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_files_are_refused(tmp_path, folder, kind, message):
    error = try_archive(tmp_path, folder, kind, limits=Limits(files=3))
    message("archive_of_many_files", str(error).replace(str(tmp_path), "FOLDER")
            .replace(f"evil.{kind}", "evil"))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_bytes_are_refused_by_what_is_unpacked(tmp_path, folder, kind, message):
    zeros = b"\0" * (1 << 20)
    add = [lambda a: a.add("one/sources/zeros", zeros)]
    error = try_archive(tmp_path, folder, kind, *add, limits=Limits(bytes=1 << 19))
    message("archive_too_large", str(error).replace(str(tmp_path), "FOLDER")
            .replace(f"evil.{kind}", "evil"))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused_by_what_is_unpacked(tmp_path, folder, kind):
    zeros = b"\0" * (8 << 20)
    add = [lambda a: a.add("one/sources/zeros", zeros)]
    error = try_archive(tmp_path, folder, kind, *add, limits=Limits(free_bytes=1 << 20))
    assert "grows too much" in str(error)
    assert type(error) is HostileArchiveError


def test_a_zip_that_lies_about_its_sizes_is_still_counted(tmp_path, folder):
    archive = Zip(tmp_path / "evil.zip")
    for path, data in read_files(folder).items():
        archive.add(f"one/{path}", data)
    archive.add("one/sources/zeros", b"\0" * (8 << 20))
    archive.finish()
    data = bytearray(archive.file.read_bytes())
    for place in find_all(bytes(data), (8 << 20).to_bytes(4, "little")):
        data[place : place + 4] = (100).to_bytes(4, "little")
    archive.file.write_bytes(bytes(data))
    with pytest.raises(SavepointError):
        import_archive(archive.file, tmp_path / "there" / "x", Limits(free_bytes=1 << 20))
    assert list((tmp_path / "there").iterdir()) == []


def find_all(data, part):
    place = data.find(part)
    while place >= 0:
        yield place
        place = data.find(part, place + 1)


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path, message):
    info = tarfile.TarInfo("././@PaxHeader")
    info.type = tarfile.XHDTYPE
    info.size = 8**11 - 1
    (tmp_path / "evil.tar.gz").write_bytes(gzip.compress(info.tobuf(tarfile.USTAR_FORMAT)))
    with pytest.raises(HostileArchiveError) as error:
        import_archive(tmp_path / "evil.tar.gz", tmp_path / "x")
    message("archive_with_a_long_header", str(error.value).replace(str(tmp_path), "FOLDER"))
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar.gz"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_the_manifest_does_not_name_is_refused(tmp_path, folder, kind):
    data = (folder / "state/part-0.parquet").read_bytes()
    error = try_archive(tmp_path, folder, kind, lambda a: a.add("one/state/part-9.parquet", data))
    assert type(error) is DamagedSavepointError
    assert error.extra == ("state/part-9.parquet",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "path", ["one/state/part-1.parquet", "one/manifest.json", "one/manifest.sha256"]
)
def test_a_file_with_another_sum_is_refused(tmp_path, folder, kind, path):
    def change(members):
        return {n: flip(data) if n == path else data for n, data in members.items()}

    error = try_archive(tmp_path, folder, kind, change=change)
    assert type(error) is DamagedSavepointError
    assert path.removeprefix("one/") in str(error)


def flip(data):
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file_is_named(tmp_path, folder, kind):
    error = try_archive(
        tmp_path, folder, kind, change=lambda m: {n: d for n, d in m.items() if "part-1" not in n}
    )
    assert error.missing == ("state/part-1.parquet",)


class Evil:
    def __reduce__(self):
        return (print, ("run",))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["state/part-9.parquet", "sources/0/0"])
def test_a_pickle_is_refused_even_with_the_right_sums(tmp_path, folder, kind, path):
    pickled = pickle.dumps(Evil(), 4)

    def change(members):
        record = FileRecord(hashlib.sha256(pickled).hexdigest(), len(pickled), None)
        records = dict(open_savepoint(folder).manifest.files) | {path: record}
        data = write_manifest(describe().seal(records))
        return members | {
            f"one/{path}": pickled,
            "one/manifest.json": data,
            "one/manifest.sha256": sum_manifest(data),
        }

    error = try_archive(tmp_path, folder, kind, change=change)
    assert type(error) is ForbiddenFileError
    assert "pickle" in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_of_another_format_is_refused(tmp_path, folder, kind):
    def change(members):
        data = members["one/manifest.json"].replace(b'"format": 1', b'"format": 9')
        return members | {"one/manifest.json": data, "one/manifest.sha256": sum_manifest(data)}

    assert type(try_archive(tmp_path, folder, kind, change=change)) is ManifestError


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_of_something_else_is_refused(tmp_path, folder, kind, message):
    error = try_archive(tmp_path, folder, kind, change=lambda m: {"one/readme": b"hello"})
    message("archive_of_something_else", str(error).replace(str(tmp_path), "FOLDER")
            .replace(f"evil.{kind}", "evil"))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_no_archive_are_refused(tmp_path, folder, kind):
    export_archive(open_savepoint(folder), tmp_path / f"a.{kind}")
    good = (tmp_path / f"a.{kind}").read_bytes()
    (tmp_path / "out").mkdir()
    for size in (0, 1, 10, len(good) // 3, len(good) // 2, len(good) - 30):
        (tmp_path / f"b.{kind}").write_bytes(good[:size])
        with pytest.raises(SavepointError):
            import_archive(tmp_path / f"b.{kind}", tmp_path / "out" / "x")
    for place in range(0, len(good), max(1, len(good) // 60)):
        (tmp_path / f"b.{kind}").write_bytes(
            good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1 :]
        )
        try:  # A bit that says nothing, such as a date, may be another.
            made = import_archive(tmp_path / f"b.{kind}", tmp_path / "out" / f"x{place}")
        except SavepointError:
            continue
        assert read_files(made) == read_files(folder)
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def test_a_name_with_a_hidden_end_is_refused(tmp_path, folder, message):
    archive = Zip(tmp_path / "evil.zip")
    archive.add("one/sources/a?b", b"x")
    archive.finish()
    archive.file.write_bytes(archive.file.read_bytes().replace(b"a?b", b"a\0b"))
    with pytest.raises(HostileArchiveError) as error:
        import_archive(archive.file, tmp_path / "x")
    message("archive_with_a_hidden_name", str(error.value).replace(str(tmp_path), "FOLDER"))


def test_an_encrypted_zip_is_refused(tmp_path, folder):
    file = export_archive(open_savepoint(folder), tmp_path / "a.zip")
    data = bytearray(file.read_bytes())
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = bytes(data).find(mark) + offset
        data[place] |= 1
    file.write_bytes(bytes(data))
    with pytest.raises(HostileArchiveError):
        import_archive(file, tmp_path / "x")
