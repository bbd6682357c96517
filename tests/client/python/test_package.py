"""The package as pip installs it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3] / "client" / "python"


# With what is installed: no network.
OFFLINE = ["--no-build-isolation", "--no-deps", "--no-index", "-q"]


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", *arguments, *OFFLINE], check=True)


def wheel_of(source, folder):
    pip("wheel", "-w", folder, source)
    (built,) = folder.glob("attnd-*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return wheel_of(PROJECT, tmp_path_factory.mktemp("wheel"))


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if ".dist-info/" not in name
        }


def test_a_source_distribution_stands_alone(wheel, tmp_path):
    program = "import sys, build_backend; print(build_backend.build_sdist(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, tmp_path], cwd=PROJECT, check=True)
    (source,) = tmp_path.glob("attnd-*.tar.gz")
    # Unpacked, away from the repository.
    built = wheel_of(source, tmp_path)
    assert built.name == wheel.name
    assert contents(built) == contents(wheel)
    assert not (PROJECT / "proto").exists() and not (PROJECT / "VERSION").exists()


def test_pip_installs_it_and_it_calls_a_server(server, tmp_path):
    pip("install", "--target", tmp_path, PROJECT)
    program = f"""
import numpy as np
import attnd
q = np.ones((3, 2), np.float32)
with attnd.Client({server.target!r}) as client:
    print(attnd.__file__, client.attend(q, q, q).output.tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = str(tmp_path / "attnd" / "__init__.py")
    assert done.stdout == f"{found} {[[1.0, 1.0]] * 3}\n"


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
