"""Programs that have NVIDIA's run time linked in are led to ours: entry points by their names, and nothing else."""

import os
import platform
import shutil
import subprocess
import sys

import pytest

from warpsim.driver import library

RUNTIME = """
int __cudaRegisterFatBinary(void) { return 40; }
int cudaGetExportTable(void) { return 41; }
int cudaMalloc(void) { return 42; }
int cudaFree(void) { return 43; }
int warpsimMalloc3D(void) { return 44; }
"""
THEIRS = """
#include <stdio.h>
#define THEIRS(name) __attribute__((noipa, aligned(16))) static int name(int a) { volatile int x = 1; return x + a - a * x; }
THEIRS(__cudaRegisterFatBinary) THEIRS(cudaGetExportTable) THEIRS(cudaMalloc) THEIRS(cudaFree_ptsz) THEIRS(cudaOther)
THEIRS(mine) THEIRS(cudaM)
#define ALL __cudaRegisterFatBinary(1), cudaGetExportTable(1), cudaMalloc(1), cudaFree_ptsz(1), cudaOther(1), mine(1), cudaM(1)
"""
PROGRAM = """
#include <dlfcn.h>
int main(int count, char **words)
{
    printf("%d %d %d %d %d %d %d\\n", ALL);
    return count > 1 && !dlopen(words[1], RTLD_NOW);
}
"""
LIBRARY = """
__attribute__((constructor)) static void begin(void) { printf("%d %d %d %d %d %d %d\\n", ALL); fflush(stdout); }
"""
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="the libraries are for Linux, and a C compiler makes them",
)


@pytest.fixture
def run(tmp_path):
    """Compile what is given, and run the program as `warpsim exec` does, with a run time that only gives numbers."""

    def build(name, text, *words):
        path = tmp_path / name
        path.with_suffix(".c").write_text(text)
        subprocess.run([*library.compiler(), *words, str(path.with_suffix(".c")), "-o", str(path), "-ldl"], check=True)
        return path

    def start(program, *words, **more):
        shared = ("-O0", "-fPIC", "-shared")
        runtime = build(library.RUNTIME, RUNTIME, *shared)
        linked = build(library.LINKED, (library.SOURCES / "linked.c").read_text(), *shared)
        assert runtime.parent == linked.parent == tmp_path
        env = library.environment(tmp_path, {"PATH": os.environ["PATH"]}, preload=False) | more
        done = subprocess.run([str(program), *map(str, words)], env=env, capture_output=True, text=True, check=False)
        return done.stdout.split("\n")[:-1], done.stderr, done.returncode

    return build, start


def test_a_program_and_a_library(run):
    """Every name that ours has, before any constructor; a name with a part of one, or of the program's own, stays."""
    build, start = run
    program = build("program", THEIRS + PROGRAM, "-O1")
    plugin = build("plugin.so", THEIRS + LIBRARY, "-O1", "-fPIC", "-shared")
    led = "40 41 42 43 1 1 1"

    assert start(program, plugin) == ([led, led], "", 0)
    assert start(program, LD_AUDIT="") == (["1 1 1 1 1 1 1"], "", 0)


def test_what_stays(run):
    """A file without names, and one that has only some of a run time's, are left alone."""
    build, start = run
    stripped = build("stripped", THEIRS + PROGRAM, "-O1", "-s")
    other = build("other", THEIRS.replace("cudaGetExportTable", "cudaGetTable") + PROGRAM, "-O1")

    assert start(stripped)[0] == start(other)[0] == ["1 1 1 1 1 1 1"]


CUTE = """
#include <stdio.h>
#define OWN __attribute__((noipa, aligned(16), section(".far"))) static int
OWN cudaMalloc(int a) { volatile int x = 1; return x + a - a * x; }
OWN cudaFree(int a, int b) { volatile int x = 1; return x + a - a * x + b; }
int _cudaMalloc(int a) { return cudaMalloc(a); }
int _cudaFree(int a) { return cudaFree(a, 0); }
__attribute__((constructor)) static void begin(void) { printf("%d %d\\n", _cudaMalloc(1), _cudaFree(1)); fflush(stdout); }
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="compilers for other processors may make no jump of the call"
)
def test_functions_that_are_jumps(run, tmp_path):
    """CuTe DSL's run time without names: where its function is a jump, what it jumps to is ours; one that adds arguments stays."""
    build, start = run
    program = build("program", THEIRS + PROGRAM, "-O1", "-s")
    words = ("-O2", "-fno-pie", "-fPIC", "-shared", "-s")
    plugin = build("libcute_dsl_runtime.so", CUTE, *words)

    assert start(program, plugin)[0][1] == "42 1"
    shutil.copy(plugin, tmp_path / "libother.so")
    assert start(program, tmp_path / "libother.so")[0][1] == "1 1"


def test_files_that_are_no_programs(run, tmp_path):
    """Names are read from files with care: cut, or with offsets beyond the end, they give none."""
    build, start = run
    program = build("program", THEIRS + PROGRAM, "-O1")
    data = bytearray(program.read_bytes())
    data[0x28:0x30] = (len(data) - 64).to_bytes(8, "little")  # e_shoff: sections that are none
    broken = tmp_path / "broken"
    broken.write_bytes(data)
    broken.chmod(0o755)

    assert start(broken) == (["1 1 1 1 1 1 1"], "", 0)
