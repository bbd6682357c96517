"""The package as pip installs it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3] / "client" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built with what is installed: no network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation"]
        + ["--no-deps", "--no-index", "-w", folder, PROJECT],
        check=True,
    )
    (built,) = folder.glob("attnd-*.whl")
    return built


def in_wheel(wheel, folder, program):
    """Runs a program that sees the wheel's files and not those of the build."""
    zipfile.ZipFile(wheel).extractall(folder)
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_the_wheel_has_sources_stubs_and_types(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = PROJECT / "src"
    for source in sources.rglob("*.py*"):
        if "__pycache__" not in source.parts:
            assert str(source.relative_to(sources)) in names
    assert {
        "attnd/py.typed",
        "attnd/v1/attention_pb2_grpc.py",
        "attnd/v1/attention_pb2.pyi",
    } <= names
    assert not [name for name in names if name.startswith(("tests", "google"))]


def test_it_works_beside_packages_that_register_google_rpc(wheel, tmp_path):
    program = """
import attnd
from google.protobuf import descriptor_pool, descriptor_pb2
pool = descriptor_pool.Default()
for name, message in (("google/rpc/status.proto", "Status"),
                      ("google/rpc/error_details.proto", "RetryInfo"),
                      ("grpc/health/v1/health.proto", "HealthCheckRequest")):
    try:
        pool.FindFileByName(name)
        raise SystemExit(name + " is registered")
    except KeyError:
        pass
    other = descriptor_pb2.FileDescriptorProto(
        name=name, package=name.rpartition("/")[0].replace("/", "."))
    other.message_type.add(name=message)
    pool.AddSerializedFile(other.SerializeToString())
print(attnd.__version__, attnd.Client("h:1"))
"""
    done = in_wheel(wheel, tmp_path, program)
    assert done.returncode == 0, done.stderr
    version = wheel.name.split("-")[1]
    assert done.stdout == f"{version} Client('h:1')\n"


def test_it_is_imported_without_pandas(wheel, tmp_path):
    program = "import sys; sys.modules['pandas'] = None; import attnd; print('good')"
    done = in_wheel(wheel, tmp_path, program)
    assert done.stdout == "good\n", done.stderr
