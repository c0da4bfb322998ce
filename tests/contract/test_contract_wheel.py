from __future__ import annotations

import configparser
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from schemas import codec

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fetchers", "parsers", "schemas", "streams")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the wheel, built from this tree without network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert build.returncode == 0, build.stderr
    (path,) = folder.glob("*.whl")
    assert path.name.startswith("crawlstream-")
    assert path.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _metadata(wheel: dict[str, bytes], name: str) -> str:
    (found,) = [file for file in wheel if file.endswith(f".dist-info/{name}")]
    return wheel[found].decode()


def test_the_wheel_ships_the_four_packages_and_nothing_else(wheel: dict[str, bytes]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    (information,) = tops - set(PACKAGES)
    assert information.startswith("crawlstream-")
    assert information.endswith(".dist-info")
    assert tops == {*PACKAGES, information}


def test_the_wheel_ships_every_file_of_the_packages(wheel: dict[str, bytes]) -> None:
    shipped = {name for name in wheel if name.split("/")[0] in PACKAGES}
    present = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert shipped == present


def test_the_wheel_ships_schemas_and_types(wheel: dict[str, bytes]) -> None:
    for package in PACKAGES:
        assert f"{package}/__init__.py" in wheel
        assert wheel[f"{package}/py.typed"] == b""
    schemas = {name for name in wheel if name.endswith(".avsc")}
    assert schemas == {
        f"schemas/avsc/{name}.{version.version}.avsc"
        for name in codec.NAMES
        for version in codec.versions(name)
    }


def test_the_commands_are_registered(wheel: dict[str, bytes]) -> None:
    points = configparser.ConfigParser()
    points.read_string(_metadata(wheel, "entry_points.txt"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert dict(points["console_scripts"]) == project["scripts"]
    commands = project["entry-points"]["crawlstream.commands"]
    assert dict(points["crawlstream.commands"]) == commands
    for target in (*project["scripts"].values(), *commands.values()):
        module = target.partition(":")[0].replace(".", "/")
        assert f"{module}.py" in wheel or f"{module}/__init__.py" in wheel


def test_the_licence_is_in_the_wheel(wheel: dict[str, bytes]) -> None:
    assert "License-Expression: Apache-2.0" in _metadata(wheel, "METADATA")
    assert any(name.endswith("/licenses/LICENSE") for name in wheel)
