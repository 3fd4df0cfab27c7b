"""The package as others meet it: completion, types seen from outside, metadata, wheel and sdist."""

import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import attrs
import pytest

import warpsim
from warpsim.host.command_options import OPTIONS, CommandOptions

ROOT = Path(__file__).parent.parent

CONSUMER = '''
"""What a user's typed code does with warpsim."""

import numpy as np
import numpy.typing as npt
import warpsim


def launch(path: str, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    module = warpsim.load(path)
    kernel = module["saxpy"]
    y = np.zeros_like(x)
    device = warpsim.Device("sm_90a", numerics="exact")
    result = kernel((4,), 256, (len(x), 2.0, device.array(x), y), device=device, on_finding="collect")
    count: int = result.instructions + result.opcodes["fma.rn.f32"]
    for finding in result.findings:
        rule: str = finding.rule
        print(rule, finding.lanes[0] + count)
    return y


def snippet() -> npt.NDArray[np.generic]:
    values: npt.NDArray[np.generic] = warpsim.run("add.u32 %r0, %r1, 1;", registers={"%r1": 5}).registers["%r0"]
    return values


try:
    launch("saxpy.ptx", np.ones(4, np.float32))
except (warpsim.PtxError, warpsim.ExecutionError) as error:
    print(error.findings[0].headline())
'''
WRONG = '\nwarpsim.load("saxpy.ptx")["saxpy"]((1,), (32,))\nwarpsim.load(3.5)\nwarpsim.run("", warps="two")\n'  # three errors


def test_completion():
    """dir() offers the public names, also before anything was imported, and no private one."""
    code = "import sys, warpsim; print(dir(warpsim)); print('numpy' in sys.modules)"
    shown, numpy = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()

    assert set(eval(shown)) >= {*warpsim.__all__, "__version__"}
    assert [n for n in eval(shown) if n.startswith("_")] == ["__version__"]
    assert numpy == "False"


def test_commands_that_wait_for_a_program():
    """``warpsim exec`` gets as far as the program without NumPy and attrs."""
    names = "cli.grammar", "cli.executing", "driver.library"
    code = "import sys, " + ", ".join(f"warpsim.{name}" for name in names)
    code += "; warpsim.cli.grammar.parser('exec'); print({'numpy', 'attr', 'attrs'} & {*sys.modules})"

    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_options_of_commands():
    """They are fields, and leave the defaults of these."""
    fields = attrs.fields_dict(CommandOptions)

    assert {name: each.get("default") for name, each in OPTIONS.items()} == {n: fields[n].default for n in OPTIONS}


def test_metadata():
    """Version, citation, changelog and classifiers agree."""
    about = metadata.metadata("warpsim")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert f'version = "{warpsim.__version__}"' in text
    assert f"version: {warpsim.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version = {{{warpsim.__version__}}}" in (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    assert f"## [{warpsim.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert about["License-Expression"] == "Apache-2.0"
    assert "Programming Language :: Python :: 3.10" in text


def consumer(folder, text):
    """A file that lies outside of the repository."""
    path = folder / "consumer.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_types_from_outside(checker, tmp_path):
    """A strictly typed user of the package passes mypy and pyright; wrong calls are refused."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    command = {
        "mypy": ["mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache")],
        "pyright": ["pyright", "--pythonpath", sys.executable],
    }[checker]

    def check(text):
        path = consumer(tmp_path, text)
        return subprocess.run([sys.executable, "-m", *command, str(path)], capture_output=True, text=True, cwd=tmp_path)

    assert (done := check(CONSUMER)).returncode == 0, done.stdout + done.stderr
    refused = check(CONSUMER + WRONG)
    assert len(re.findall(r"\berror\b:?", refused.stdout.rsplit("\n", 2)[0])) == 3, refused.stdout


@pytest.mark.long
def test_wheel_and_sdist(tmp_path):
    """Both build; the wheel is small, typed, and brings the bundled programs with their sources."""
    pytest.importorskip("build")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)], check=True, capture_output=True
    )
    wheel, sdist = next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as opened:
        kept = opened.getnames()

    assert wheel.stat().st_size < 4 << 20
    assert "warpsim/py.typed" in names
    assert {"warpsim/programs/saxpy/kernel.cu", "warpsim/programs/saxpy/case.json"} <= set(names)
    assert not [n for n in names if n.startswith(("tests", "docs")) or "__pycache__" in n]
    assert any(n.endswith("tests/test_package.py") for n in kept)
    assert sdist.stat().st_size < 40 << 20
