"""What the functions of libcuda answer, against an H100's driver and cuda.h: right arguments, null, handles that have gone.

``codes_h100.txt`` has what a driver answered to `driver_codes`; where it crashed, an error is wanted here. ``cuda_h.txt`` has the
parameters of each function (`driver_signatures`), and ``codes_before_init.txt`` its code before cuInit (`driver_before_init`).
"""

import ctypes
import sys
from pathlib import Path

import pytest

import driver_codes
from driver_codes import Things
from warpsim.driver.abi.calls import CALLS, missing
from warpsim.driver.abi.process import PROCESS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the libraries are for Linux")
HERE = Path(__file__).parent
TRIALS = [trial for trial in driver_codes.everything() if not callable(trial)]
SCENARIOS = {trial.__name__: trial for trial in driver_codes.everything() if callable(trial)}
LINES = (HERE / "codes_h100.txt").read_text().splitlines()
ANSWERS = dict(line.rsplit(": ", 1) for line in LINES)
SAID = {name: words.split() for name, _, words in (line.partition(": ") for line in LINES) if name in SCENARIOS}
SIGNATURES = {words[0]: "".join(words[1:]) for words in map(str.split, (HERE / "cuda_h.txt").read_text().splitlines())}
BEFORE_INIT = dict(line.split(": ") for line in (HERE / "codes_before_init.txt").read_text().splitlines())
CRASHED = "ended with -11"
UNKNOWN, NOT_SUPPORTED, NOT_INITIALIZED = 999, 801, 3
OTHERWISE = {
    # the driver has two codes for a function that is null, and for an ended context; here there is one
    **dict.fromkeys(("cuKernelGetName: null 1", "cuKernelGetParamInfo: null 0", "cuFuncGetModule: null 1"), 400),
    **dict.fromkeys(("cuFuncGetName: null 1", "cuFuncGetParamInfo: null 0"), 400),
    **dict.fromkeys(("cuOccupancyMaxPotentialClusterSize: null 1", "cuOccupancyMaxActiveClusters: null 1"), 400),
    "cuCtxGetApiVersion: gone 0": 709,
    "cuEventElapsedTime_v2: null 0": 1,
    "cuMemcpyPeerAsync: gone 1": 400,  # memory and stream end with the context
}
"""Codes that are others here."""
STALE = {"stream", "capturing", "link", "linked", "library"}
"""Things whose memory the driver reads after their end, so that its answer means nothing."""
ANY_ADDRESS = {"cuPointerGetAttributes: gone 3", "cuTensorMapEncodeTiled: gone 3", "cuTensorMapReplaceAddress: gone 1"}
"""These take addresses of nobody's memory."""
DIFFERENT = {
    # a buffer shorter than the parameters: the driver's kernel gets what lies behind it, here it is refused
    "parameters_of_launches": {1: "LaunchKernel=1", 2: "LaunchKernel=1", 3: "LaunchKernel=1", 21: "CtxSynchronize=0"},
    "kernel_nodes": {
        33: "GraphKernelNodeSetParams_v2=1",
        34: "GraphKernelNodeSetAttribute=0",
        36: "got:(1,0,0)",
        52: "got:1",
    },
    "names_of_devices": {0: "DeviceGetName=1"},  # a negative length, which the driver takes for a large one
    "object_that_ends_twice_by_cuUserObjectRelease": {1: "UserObjectRelease=1"},
}
"""Words of scenarios that are others here, by their places."""


@pytest.fixture
def files(call, tmp_path):
    """Where trials write."""
    call.files = str(tmp_path)
    return call.files


def begin(call):
    """A new context, which is current."""
    context = ctypes.c_uint64()
    assert call("cuInit", 0) == call("cuCtxCreate_v2", context, 0, 0) == 0
    return context.value


def answer(call, trial):
    """What is said here."""
    call.renew()
    begin(call)
    return driver_codes.answer(call, call.files, trial)


def test_right_and_wrong_arguments(call, files, monkeypatch):
    """Each function's code for right arguments, without a context, for null, and for each thing after its end."""
    monkeypatch.setattr(PROCESS, "addresses", {"cuInit": 4096})
    for name, words, what in TRIALS:
        label = f"{name}: {what}"
        found = answer(call, (name, words, what)).rsplit(": ", 1)[1]
        gone = words[int(what.split()[1])] if what.startswith("gone") else ""
        undefined = ANSWERS[label] == CRASHED or gone in STALE or (gone and ANSWERS[label] == "0")
        if undefined and what != "no context" and label not in ANY_ADDRESS:
            assert found.isdigit(), (label, found)
            assert int(found) not in (0, UNKNOWN), label
        elif ANSWERS[label] != CRASHED:
            assert (label, found) == (label, str(OTHERWISE.get(label, ANSWERS[label])))


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(call, files, name):
    """Sequences of calls give the driver's codes and results, as far as it got."""
    found, wanted = answer(call, SCENARIOS[name]).split()[1:], list(SAID[name])
    if wanted[-3:] == CRASHED.split():
        wanted = wanted[:-3]
        assert not found[len(wanted)].endswith(("=0", f"={UNKNOWN}"))
        found = found[: len(wanted)]
    for place, word in DIFFERENT.get(name, {}).items():
        wanted[place] = word

    assert found == wanted


# ---- every function of cuda.h --------------------------------------------------------------------


def unsupported():
    """The functions that the simulated driver does not have."""
    return {name for name, found in CALLS["cuda"].items() if found.function.__qualname__.startswith(missing.__name__)}


def test_functions_of_the_header(call):
    """Each is there, with its number of parameters and their sizes; a few are newer."""
    names = set(SIGNATURES)
    assert set(CALLS["cuda"]) - names == {"cuFuncGetParamCount", "cuKernelGetParamCount", "cuLaunchHostFunc_v2"}
    assert set(CALLS["cuda"]) >= names
    narrow = set("IUDr")
    for name in names - unsupported():
        kinds, letters = CALLS["cuda"][name].kinds, SIGNATURES[name]
        assert (name, len(kinds)) == (name, len(letters))
        if f"{name}_v2" not in names:  # older forms have sizes of 32 bits
            assert (name, [k in narrow for k in kinds]) == (name, [k in narrow for k in letters])


def test_functions_that_are_missing(call):
    """They say so by their code. Of graphs, only those of external semaphores are."""
    for name in unsupported():
        assert (name, call(name)) == (name, NOT_SUPPORTED)
    graphs = [name for name in unsupported() if name.startswith("cuGraph") and not name.startswith("cuGraphics")]
    assert all("ExternalSemaphores" in name for name in graphs)


def test_before_initialization(call, files):
    """Before cuInit, only the functions that the driver answers then do what they do. Where it refuses an argument first, either is
    right."""
    things = Things(call, files)
    for name, answer in BEFORE_INIT.items():
        if name == "cuGetExportTable" or (answer == "0" and name in unsupported()):  # undocumented; CUDA 13's logs
            continue
        call.renew()
        letters = SIGNATURES[name][: len(CALLS["cuda"][name].kinds)]
        found = call(name, *(things["out"] if letter in "*&" else 0 for letter in letters))
        allowed = {int(answer)} if answer == "0" or name.startswith("cuGetProc") else {int(answer), NOT_INITIALIZED}

        assert found in allowed, (name, answer)


def test_the_runtime_initializes(call):
    """A call of the runtime initialises the driver, as cuInit does; one that only asks for an error does not."""
    version = ctypes.c_int32()
    call.renew()
    assert call("cudaGetLastError") == 0
    assert call("cuDeviceGetCount", version) == NOT_INITIALIZED
    assert call("cudaGetDeviceCount", version) == call("cuDeviceGetCount", version) == 0


OF_LETTERS = {
    "c": "context", "m": "module", "l": "library", "f": "function", "k": "kernel", "s": "stream", "e": "event", "g": "graph",
    "n": "node.empty", "x": "exec.empty", "p": "pool", "j": "link", "u": "object", "*": "out", "&": "zero",
}  # fmt: skip
"""What a parameter of each letter is given; 0 where none is here."""
OWNERS = {"function": "module", "kernel": "library", "node.empty": "node.empty.graph"}
"""What things end with."""


def code_of(call, things, name, at, bad):
    """The code of a function with one bad argument; the context is current again then."""
    given = [things[OF_LETTERS.get(letter, "0")] for letter in SIGNATURES[name]]
    given[at] = bad
    code = call(name, *given)
    call("cuCtxSetCurrent", things["context"])
    return code


@pytest.mark.parametrize("letter", [letter for letter in OF_LETTERS if letter.islower()])
def test_handles_of_every_function(call, files, letter):
    """A handle that never was, one of another kind, one whose owner has gone, and null are refused, whatever the function.

    A null stream is the default one, a null context the current one or none.
    """
    places = [(n, i) for n, s in SIGNATURES.items() if n not in unsupported() for i, x in enumerate(s) if x == letter]
    begin(call)
    things, old, word = Things(call, files), Things(call, files), OF_LETTERS[letter]
    gone = old[word]
    old.end(OWNERS.get(word, word))
    if letter == "c":
        begin(call)
    other = things["event" if letter == "m" else "module"]

    assert places
    for name, at in places:
        for bad in (0x5EED_0000, other, gone, 0):
            code = code_of(call, things, name, at, bad)
            if bad or letter not in "sc":
                assert code in (1, 201, 400, 709), (name, at, hex(bad), code)
            else:
                assert code != UNKNOWN, (name, at)


def test_owners_take_things_along(call, files):
    """What ends with a context, a library, a graph, a node; and what does not."""
    begin(call)
    context, things = begin(call), Things(call, files)
    ended = ["module", "function", "stream", "event", "link"]
    stay = ["library", "kernel", "graph", "node.empty", "exec.empty", "pool", "object"]
    handles = {word: things[word] for word in ended + stay}
    assert call("cuCtxDestroy_v2", context) == 0
    assert [word for word, handle in handles.items() if PROCESS.handles.find(handle) is None] == ended
    things.made["context"] = things.context()
    inner = things.good("cuGraphChildGraphNodeGetGraph", things["node.child"], ...)
    node = things.good("cuGraphAddEmptyNode", ..., inner, 0, 0)
    for name, owner, owned in (
        ("cuLibraryUnload", things["library"], [things["kernel"]]),
        ("cuGraphDestroyNode", things["node.child"], [inner, node]),
        ("cuGraphDestroy", things["node.empty.graph"], [things["node.empty"]]),
    ):
        assert all(PROCESS.handles.find(handle) is not None for handle in owned)
        assert call(name, owner) == 0
        assert [PROCESS.handles.find(handle) for handle in [owner, *owned]] == [None] * (1 + len(owned))


OPTIONAL = {
    *(
        ("cuCtxCreate", 1),
        ("cuCtxPopCurrent", 0),
        ("cuGraphInstantiate", 2),
        ("cuGraphInstantiate", 3),
        ("cuLinkCreate", 1),
    ),
    *(("cuLinkCreate", 2), ("cuLinkAddData", 4), ("cuLinkAddData", 6), ("cuLinkAddData", 7), ("cuLinkAddFile", 4)),
    *(("cuLinkAddFile", 5), ("cuGraphExecUpdate", 2), ("cuGraphExecUpdate", 3), ("cuStreamAddCallback", 2)),
    *(("cuLaunchHostFunc", 2), ("cuLibraryGetManaged", 0), ("cuLibraryGetManaged", 1), ("cuGraphGetNodes", 1)),
    *(("cuGraphGetRootNodes", 1), ("cuGraphGetEdges", 1), ("cuGraphGetEdges", 2), ("cuGraphGetEdges", 3)),
    *(("cuGraphNodeGetDependencies", 1), ("cuGraphNodeGetDependencies", 2), ("cuGraphNodeGetDependentNodes", 1)),
    *(("cuGraphNodeGetDependentNodes", 2), ("cuUserObjectCreate", 1), ("cuLaunchKernel", 9), ("cuLaunchKernel", 10)),
    *(("cuLaunchKernelEx", 2), ("cuLaunchKernelEx", 3), ("cuLaunchCooperativeKernel", 9), ("cuGetProcAddress", 4)),
    *(
        ("cuModuleLoadDataEx", 3),
        ("cuModuleLoadDataEx", 4),
        ("cuTensorMapEncodeTiled", 3),
        ("cuTensorMapEncodeIm2col", 3),
    ),
    *(("cuMemcpyDtoH", 0), ("cuMemcpyDtoHAsync", 0), ("cuMemcpyHtoD", 1), ("cuMemcpyHtoDAsync", 1)),
    *(("cuStreamGetCaptureInfo", at) for at in range(2, 7)),
    *((f"cuLibrary{name}", at) for name in ("LoadData", "LoadFromFile") for at in (2, 3, 5, 6)),
}
"""Pointers that may be null: options, what nobody asks for, what a launch without parameters or a copy of no bytes has, a host's
own data."""
LISTS = ("cuGraphAdd", "cuGraphRemove", "cuStreamUpdate", "cuStreamBegin")
"""Functions of lists, which may be null where they are empty."""


def is_optional(name, at):
    """Whether a pointer may be null, as the driver answered of the function or another form of it."""
    recorded = {CALLS["cuda"][other].function: other for other, _, what in TRIALS if what == f"null {at}"}
    same = recorded.get(CALLS["cuda"][name].function)
    if ANSWERS.get(f"{same}: null {at}") == "0" or (name.split("_")[0], at) in OPTIONAL:
        return True
    return name.startswith(LISTS) and at > 0 and "P" in SIGNATURES[name][at:]


def test_null_pointers_of_every_function(call, files):
    """A pointer to what a function reads or stores is not null, unless it is optional."""
    begin(call)
    things, left_out = Things(call, files), unsupported()
    for name, letters in SIGNATURES.items():
        for at in (i for i, letter in enumerate(letters) if letter in "*&"):
            if name not in left_out and not name.startswith("cuCoredump") and not is_optional(name, at):
                assert code_of(call, things, name, at, 0) not in (0, UNKNOWN), (name, at)
