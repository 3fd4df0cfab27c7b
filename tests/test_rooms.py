"""One room alone: a plan, a memory, a region of machine code and a check are each built from what lies below them."""

import numpy as np
import pytest

from ptx_text import module_head
from warpsim.checks.convergence import Barriers
from warpsim.checks.race.detector import RaceWatcher
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.engine import run
from warpsim.machine.hooks import Hooks
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address
from warpsim.machine.plan import Image
from warpsim.machine.selection import Shape
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.state.launch import LaunchState, Settings
from warpsim.program.load import program_of
from warpsim.types import TYPES

SQUARES = """.reg .b32 %r<4>; .reg .b64 %rd<3>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mul.lo.u32 %r1, %r0, %r0; add.u32 %r1, %r1, 7;
mul.wide.u32 %rd1, %r0, 4; add.u64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r1;"""
EXPECTED = [i * i + 7 for i in range(32)]


def plan_of(body):
    """A kernel's plan, from its text: no device, no module."""
    text = f"{module_head('sm_90a', '8.3')}.visible .entry k(.param .u64 p) {{ {body} ret; }}"
    return Image(program_of(text), {}, bind_function).plan("k")


def launch_of(body, threads=32, nbytes=128, **settings):
    """A launch of one CTA that has not begun, and the memory to which its parameter points."""
    memory = GlobalMemory()
    address, data = memory.allocate(nbytes)
    params = address.to_bytes(8, "little")
    state = LaunchState(plan_of(body), (1, 1, 1), (threads, 1, 1), params, memory, settings=Settings(**settings))
    return state, data


def machine_of(state, *watchers):
    """A machine of the launch's only CTA, and the group of all its threads at the first instruction."""
    shape = Shape(1, state.block[0], 1, 1)
    batch = BatchState.of(shape, np.arange(1), state.shared_size, state.local_size)
    machine = Machine(state, batch, Hooks(watchers))
    machine.start(state.plan.main)
    return machine, batch.runnable[0]


def test_a_plan():
    """A plan comes from text through the program, and runs from its state alone."""
    state, data = launch_of(SQUARES)
    run(state)

    assert data.view(np.uint32).tolist() == EXPECTED


def test_a_memory():
    """A port stores to an allocation and to a CTA's shared memory, and loads what is there, without a step."""
    state, data = launch_of("", dynamic_shared=64)
    machine, group = machine_of(state)
    port, u32, places = Memory(machine, group, None), TYPES["u32"], np.arange(31, -1, -1).reshape(group.selection.shape)
    there, here = Address(int.from_bytes(state.params, "little") + 4 * places), Address(np.array([8]), offset=4)

    port.store("global", there, u32, (places.astype(np.uint32) + 5,))
    port.store("shared", here, u32, (np.array([77], np.uint32),))

    assert data.view(np.uint32).tolist() == list(range(5, 37))
    assert (port.load("global", there, u32)[0] == places + 5).all()
    assert machine.batch.shared.words[3].tolist() == [77]
    assert port.load("shared", here, u32)[0].item() == 77


def test_a_region():
    """A plan's first block becomes a region, the region LLVM's text, the text a function that gives the same bits."""
    pytest.importorskip("llvmlite", reason="the extra jit is not installed")
    from warpsim.native.codegen.function import emit
    from warpsim.native.compiling.region_code import compile_module
    from warpsim.native.regions.options import Options, Outcome, Variant
    from warpsim.native.regions.region import RegionFormer
    from warpsim.native.regions.traces import Traces
    from warpsim.native.runtime.inputs import input_kind, values_of
    from warpsim.native.runtime.lane_tables import tables_of
    from warpsim.native.runtime.run import Runner

    state, data = launch_of(SQUARES)
    machine, group = machine_of(state)
    traces = Traces(state.plan.main, sm=90)
    region = RegionFormer(traces, Options(alone=True)).form(0, 0)
    values, tables = values_of(machine, group, region.sources), tables_of(group.selection)
    code, _ = compile_module(
        emit(traces, region, tuple(input_kind(v, tables.row) for v in values), Variant(True, tables.row))
    )

    outcome = Runner().run(machine, group, code, tables, values, limit=1, back_edges=1)

    assert outcome is Outcome.DONE
    assert data.view(np.uint32).tolist() == EXPECTED


def test_a_check_on_a_plan():
    """The rule for races watches a run of a bound plan; nothing else is switched on."""
    body = ".shared .align 4 .b8 s[4]; .reg .b32 %r0; mov.u32 %r0, %tid.x; st.shared.u32 [s], %r0;"
    state, _ = launch_of(body, threads=64, checks=frozenset({"race"}), on_finding="collect")
    run(state, [RaceWatcher()])

    assert [finding.rule for finding in state.findings.values()] == ["race"]


def test_a_check_fed_by_an_event():
    """The rule for barriers judges an arrival that no step has made: 48 threads are no whole number of warps."""
    state, _ = launch_of("bar.sync 0;", checks=frozenset({"barrier-divergence"}), on_finding="collect")
    machine, group = machine_of(state)
    barriers = Barriers()
    barriers.batch_began(machine)

    barriers.barrier_reached(machine, group, 0, 48)

    assert [finding.rule for finding in state.findings.values()] == ["barrier-divergence"]
