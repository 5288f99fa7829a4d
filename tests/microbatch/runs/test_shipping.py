"""Workers are sent the modules that they can't import by name, wherever their files lie."""

import json
import sys

import msgspec
import pytest

from anabranch.microbatch.runs import shipping
from anabranch.model.targets import load_module


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a folder in which packages are installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_parts_of_python_and_of_installed_packages_are_installed():
    assert shipping.is_installed(sys)
    assert shipping.is_installed(json.decoder)
    assert shipping.is_installed(msgspec)
    assert shipping.is_installed(pytest)


def test_a_file_within_an_installed_package_that_is_loaded_by_path_is_not_installed(site):
    package = site / "some_package"
    (package / "_examples").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("")
    (package / "_examples" / "story.py").write_text("")
    assert shipping.is_installed(__import__("some_package.part").part)
    assert not shipping.is_installed(load_module(str(package / "_examples" / "story.py")))


def test_a_module_of_a_project_is_not_installed(tmp_path, monkeypatch, site):
    (tmp_path / "my_project_program.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not shipping.is_installed(__import__("my_project_program"))
    assert not shipping.is_installed(sys.modules[__name__])


def test_a_file_that_is_called_like_an_installed_module_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "msgspec.py").write_text("")
    monkeypatch.delitem(sys.modules, "msgspec")
    monkeypatch.syspath_prepend(str(tmp_path))
    shadow = __import__("msgspec")
    assert shadow.__file__ == str(tmp_path / "msgspec.py")
    assert not shipping.is_installed(shadow)
