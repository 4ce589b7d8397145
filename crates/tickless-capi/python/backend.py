"""Makes the wheel: the Python files and the shared library of the C interface, which cargo builds.

`pip` calls `build_wheel` (PEP 517). `python3 backend.py DIRECTORY` does the same without pip. The variable
TICKLESS_LIBRARY names a library that was built already. Nothing is fetched: the wheel is a zip file of some files.
"""

import base64
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CRATE = HERE.parent
#: The same for each build of the same files: a zip file cannot have an earlier time.
TIME = (1980, 1, 1, 0, 0, 0)


def _cargo(*arguments):
    return subprocess.run(("cargo", *arguments), cwd=CRATE, check=True, stdout=subprocess.PIPE).stdout


def _workspace():
    """Returns the crate, as cargo describes it, and the directory that cargo builds in."""
    metadata = json.loads(_cargo("metadata", "--no-deps", "--format-version=1"))
    (crate,) = (package for package in metadata["packages"] if package["name"] == "tickless-capi")
    return crate, pathlib.Path(metadata["target_directory"])


def _library(target):
    given = os.environ.get("TICKLESS_LIBRARY")
    if given:
        return pathlib.Path(given)
    _cargo("build", "--release", "--package=tickless-capi", "--lib")
    return target / "release" / "libtickless_capi.so"


def _platform(library):
    """Returns the tag of the systems that the library runs on: those with the glibc that it asks for, or a later one."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    needs = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
    return platform.replace("linux_", f"manylinux_2_{max(needs)}_", 1) if needs else platform


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel to a directory; returns its name."""
    crate, target = _workspace()
    version = crate["version"]
    library = _library(target).read_bytes()
    # The library is loaded by ctypes, so that no ABI of an interpreter is needed: one wheel serves each Python.
    tag = f"py3-none-{_platform(library)}"
    information = f"tickless-{version}.dist-info"
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    metadata = (
        f"Metadata-Version: 2.1\nName: tickless\nVersion: {version}\nSummary: Exact timers for asyncio\n"
        "License: MIT OR Apache-2.0\nKeywords: timer,asyncio,event-loop\nClassifier: Framework :: AsyncIO\nClassifier: Operating System :: POSIX :: Linux\n"
        "Classifier: Programming Language :: Python :: 3\n"
        + (f"Project-URL: Repository, {crate['repository']}\n" if crate["repository"] else "")
        + f"Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n{readme}"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: tickless\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {f"tickless/{path.name}": path.read_bytes() for path in sorted((HERE / "tickless").glob("*.py"))}
    files["tickless/libtickless.so"] = library
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{information}/{name}"] = (CRATE / name).read_bytes()
    files[f"{information}/METADATA"] = metadata.encode()
    files[f"{information}/WHEEL"] = wheel.encode()
    files[f"{information}/RECORD"] = _record(files, information)
    name = f"tickless-{version}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return name


def _record(files, information):
    """Returns the list of all files, with their hashes."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow((path, f"sha256={digest}", len(content)))
    rows.writerow((f"{information}/RECORD", "", ""))
    return text.getvalue().encode()


def build_sdist(sdist_directory, config_settings=None):
    """Refuses: the wheel is built from the repository, for cargo needs the crates beside this one."""
    raise NotImplementedError("build the wheel from the repository")


if __name__ == "__main__":
    print(build_wheel(sys.argv[1] if len(sys.argv) > 1 else "."))
