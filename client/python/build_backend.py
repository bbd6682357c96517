"""Builds the package: generates the stubs, then leaves the rest to setuptools.

The stubs come from protoc and grpc_python_plugin on PATH (Debian:
protobuf-compiler, protobuf-compiler-grpc), which need no network; where they are
missing, from the package grpcio-tools, which pip then fetches to build with. The
protos are those of the repository; a source distribution carries a copy.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, List

from setuptools import build_meta

HERE = Path(__file__).resolve().parent
# What setuptools packs: the sources and the stubs beside them.
STAGE = HERE / "build" / "package"
MESSAGES = [
    "attnd/rpc/v1/error_details.proto",
    "attnd/v1/attention.proto",
    "attnd/v1/encoding.proto",
    "attnd/v1/tensor.proto",
]
SERVICE = "attnd/v1/attention.proto"


def _repository() -> Path:
    return HERE.parent.parent


def _protos() -> Path:
    carried = HERE / "proto"
    return carried if carried.is_dir() else _repository() / "proto"


def _tools() -> List[str]:
    """The command that compiles protos, or nothing."""
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    if protoc and plugin:
        return [protoc, f"--plugin=protoc-gen-grpc_python={plugin}"]
    return []


def _version() -> str:
    carried = HERE / "VERSION"
    if carried.is_file():
        return carried.read_text().strip()
    listing = (_repository() / "CMakeLists.txt").read_text()
    found = re.search(r"project\(attnd VERSION ([\d.]+)", listing)
    if not found:
        raise RuntimeError("CMakeLists.txt states no version of attnd")
    return found[1]


def _stage() -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(
        HERE / "src" / "attnd",
        STAGE / "attnd",
        ignore=shutil.ignore_patterns("__pycache__", "*_pb2*"),
    )
    compiler = _tools() or [sys.executable, "-m", "grpc_tools.protoc"]
    include = f"-I{_protos()}"
    for arguments in (
        [f"--python_out={STAGE}", f"--pyi_out={STAGE}", *MESSAGES],
        [f"--grpc_python_out={STAGE}", SERVICE],
    ):
        subprocess.run([*compiler, include, *arguments], check=True)
    (STAGE.parent / "VERSION").write_text(_version())
    (STAGE / "attnd" / "_version.py").write_text(f'__version__ = "{_version()}"\n')


def get_requires_for_build_wheel(config_settings: Any = None) -> List[str]:
    return [] if _tools() else ["grpcio-tools"]


def get_requires_for_build_sdist(config_settings: Any = None) -> List[str]:
    return []


def prepare_metadata_for_build_wheel(
    directory: str, config_settings: Any = None
) -> str:
    _stage()
    return build_meta.prepare_metadata_for_build_wheel(directory, config_settings)


def build_wheel(
    directory: str, config_settings: Any = None, metadata_directory: Any = None
) -> str:
    _stage()
    return build_meta.build_wheel(directory, config_settings, metadata_directory)


def build_sdist(directory: str, config_settings: Any = None) -> str:
    """A source distribution from which a wheel can be built anywhere."""
    _stage()
    protos, version = HERE / "proto", HERE / "VERSION"
    if protos.is_dir():  # this is one already
        return build_meta.build_sdist(directory, config_settings)
    try:
        # MANIFEST.in names what setuptools would leave out.
        shutil.copytree(_protos(), protos, ignore=_no_foreign_files)
        version.write_text(_version())
        return build_meta.build_sdist(directory, config_settings)
    finally:
        shutil.rmtree(protos)
        version.unlink()


def _no_foreign_files(folder: str, names: List[str]) -> List[str]:
    return [n for n in names if "." in n and not n.endswith(".proto")]
