"""The function of a region: a loop over CTAs and their warps, and in it the blocks.

A converged warp runs the blocks of `converged`; once a branch diverges, those of `diverged`. At a barrier a warp saves
its registers in a frame and resumes when all warps of its CTA have arrived. Registers that are live across blocks have
stack slots, which LLVM's SROA promotes; inside a block they are SSA values.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from warpsim.cache import digest
from warpsim.native.codegen.accesses import Accesses, Memory
from warpsim.native.codegen.apart import Apart
from warpsim.native.codegen.builder import RegionBuilder, RegisterKinds, Visit
from warpsim.native.codegen.converged import Converged
from warpsim.native.codegen.diverged import Diverged
from warpsim.native.codegen.inputs import Inputs
from warpsim.native.codegen.interference import Interference
from warpsim.native.codegen.trail import Trail
from warpsim.native.compiling.region_code import RegionModule
from warpsim.native.lowering.values import IRBuilder, NullBuilder
from warpsim.native.regions.forms import Key
from warpsim.native.regions.options import Variant
from warpsim.native.regions.region import Region, varying_of
from warpsim.native.runtime.compiled_region import Access, CompiledRegion
from warpsim.native.runtime.context import CONTEXT, MET, NOWHERE
from warpsim.native.runtime.inputs import InputKind

if TYPE_CHECKING:
    from warpsim.native.regions.traces import Traces


NUMBERS = "n_groups per_group back_edges limit log_size"
POINTERS = """rows ctas masks columns threads t1 t0 c1 c0 lives outs counts exits
    exit_lanes ranges frames states private cleans counters wholes trail trail_ends"""


def holding_lanes(traces: Traces, region: Region, given: tuple[InputKind, ...]) -> frozenset[Key]:
    """The registers that hold lanes, with such live-ins."""
    return varying_of(
        traces, region, frozenset(k for k, g in zip(region.reads, given, strict=True) if g.how != "uniform")
    )


def emit(traces: Traces, region: Region, given: tuple[InputKind, ...], variant: Variant) -> RegionModule:
    """Analyse a region, then emit it."""
    varying = holding_lanes(traces, region, given)
    kinds = RegisterKinds()
    FunctionEmitter(traces, region, varying, given, variant, kinds, NullBuilder()).analyse()
    emitter = FunctionEmitter(traces, region, varying, given, variant, kinds, IRBuilder())
    text, code, followed = emitter.text("region"), emitter.builder.code, emitter.interference.ordered()
    name = "region_" + digest(text)[:24]
    left = [(number, slot in varying) for number, slot in enumerate(region.outs) if slot in emitter.builder.left]
    described = partial(
        CompiledRegion,
        region,
        given,
        variant,
        tables=code.tables,
        left=left,
        accesses=[Access(e.kind, e.space, e.commutes, e.type.name, constant) for e, _, constant in followed],
        once=[once for _, once, _ in followed],
        outer=sorted(emitter.interference.before),
        frame_bytes=emitter.converged.frame_bytes,
        spaces=frozenset(emitter.memory.spaces),
        products=bool(code.products),
        counters=emitter.builder.counters.all,
        counter_words=emitter.builder.counters.words,
        pieces=emitter.trail.pieces,
    )
    helpers = sorted(n for n in code.declared if n.startswith("ws_"))
    return RegionModule(name, text.replace("@region(", f"@{name}("), helpers, code.products, described)


class FunctionEmitter:
    """Emits the function of one region."""

    def __init__(
        self,
        traces: Traces,
        region: Region,
        varying: frozenset[Key],
        given: tuple[InputKind, ...],
        variant: Variant,
        kinds: RegisterKinds,
        code: IRBuilder,
    ) -> None:
        self.builder = builder = RegionBuilder(traces, region, varying, variant, kinds, code)
        self.interference, self.memory = Interference(builder), Memory(builder)
        self.apart = Apart(builder, self.interference) if variant.apart else None
        self.trail = Trail(builder, used=variant.recorded)
        self.access = Accesses(builder, self.memory, self.interference, self.apart, self.trail)
        self.inputs = Inputs(builder, given)
        self.converged = Converged(
            builder, self.inputs, self.access, self.trail, lambda *split: self.diverged.enter(*split)
        )
        self.diverged = Diverged(builder, self.inputs, self.access, self.converged)

    # ---- the function -----------------------------------------------------------------------------

    def analyse(self) -> None:
        """Run the emission without emitting, until the kinds of all registers have settled."""
        self._enter()
        self._warp()
        self.builder.kinds.settle(self._visits, self._visit)

    def _visits(self) -> list[Visit]:
        if not self.builder.kinds.diverging <= set(self.diverged.diverging):
            self.diverged = Diverged(self.builder, self.inputs, self.access, self.converged)
        diverged, slices = self.diverged.diverging, len(self.builder.region.all())
        found = [("start", 0), *(("converged", number) for number in range(slices))]
        return [*found, *((f"diverged among {len(diverged)}", block) for block in diverged)]

    def _visit(self, visit: Visit) -> None:
        kind, number = visit
        if kind == "start":
            self.converged.start()
        elif kind == "converged":
            self.converged.block(number)
        else:
            self.diverged.block(number)

    def text(self, name: str) -> str:
        """The module's text."""
        builder, code = self.builder, self.builder.code
        if self.apart is not None and self.apart.hopeless:
            return f"define i32 @{name}(ptr %ctx) {{\n  ret i32 {MET}\n}}\n"
        self._enter()
        self._warp()
        self.converged.start()
        self.converged.blocks()
        if builder.kinds.diverging:
            self.diverged.blocks()
        self._next()
        for why in sorted(builder.failures):
            code.label(f"fail{why}")
            code.line(f"ret i32 {why}")
        head = [f"define i32 @{name}(ptr %ctx) {{", "entry:", *code.entry]
        declared = [code.declared[n] for n in sorted(code.declared)]
        return "\n".join([*declared, *head, *code.lines, "}", ""])

    def _enter(self) -> None:
        builder, code = self.builder, self.builder.code
        builder.words = {name: builder.word(name) for name in NUMBERS.split()}
        for name in POINTERS.split():
            builder.words[name] = builder.word(name, "ptr")
        builder.counters.begin = builder.words["counters"]
        tables = code.at("%ctx", "i64", CONTEXT["tables"])
        code.line(f"%tables = load ptr, ptr {tables}")
        builder.log_used = code.at("%ctx", "i64", CONTEXT["log_used"])
        builder.back_edge_count, self.longest = code.slot("i64"), code.slot("i64")
        builder.changed, builder.parted = code.slot("i64"), code.slot("i1")
        code.store("i1", "false", builder.parted)
        builder.path, builder.any_path, builder.every_path = code.slot("i64"), code.slot("i64"), code.slot("i64")
        code.store("i64", "-1", builder.every_path)
        builder.common = code.slot("i32")
        code.store("i32", NOWHERE, builder.common)
        builder.group, self.member = code.slot("i64"), code.slot("i64")
        builder.waiting, builder.place, builder.leaving = code.slot("i64"), code.slot("i32"), code.slot("i1")
        self.phase, builder.source = code.slot("i64"), code.slot("i32")
        builder.results = {s: code.slot("i64") for s in builder.region.outs if s not in builder.varying}
        self.inputs.enter()
        self.memory.enter()
        for pointer in (self.longest, builder.group, builder.changed, builder.any_path, *builder.results.values()):
            code.store("i64", "0", pointer)
        self.interference.enter()
        if self.apart is not None:
            self.apart.enter()
        code.line("br label %group")

    def _warp(self) -> None:
        """The loops over CTAs and warps, up to where a warp begins."""
        builder, code = self.builder, self.builder.code
        code.label("group")
        group = code.load("i64", builder.group)
        code.branch(code.make(f"icmp eq i64 {group}, " + builder.words["n_groups"]), "finish", "began")
        code.label("began")
        code.store("i64", "0", self.phase)
        code.store("i1", "false", builder.leaving)
        code.store("i32", "-1", builder.place)
        if builder.region.barriers:  # all warps of a CTA come one after the other
            builder.cta64 = group
            self._cta()
        code.line("br label %phase")
        code.label("phase")
        code.store("i64", "0", self.member)
        code.store("i64", "0", builder.waiting)
        place = code.load("i32", builder.place)
        code.store("i32", code.make(f"add i32 {place}, 1"), builder.source)
        code.store("i32", "-1", builder.place)
        if builder.region.barriers:
            self.interference.phase()
            if self.apart is not None:
                self.apart.phase()
        code.line("br label %warp")
        code.label("warp")
        member = builder.now_member = code.load("i64", self.member)
        base = code.make(f"mul i64 {code.load('i64', builder.group)}, {builder.words['per_group']}")
        k = builder.now = code.make(f"add i64 {base}, {member}")
        if builder.region.barriers:
            builder.row64 = member
            builder.row, builder.cta = (code.make(f"trunc i64 {v} to i32") for v in (builder.row64, builder.cta64))
        else:
            builder.row, builder.cta = (
                builder.element(builder.words["rows"], k),
                builder.element(builder.words["ctas"], k),
            )
            builder.row64, builder.cta64 = (code.make(f"sext i32 {v} to i64") for v in (builder.row, builder.cta))
            self._cta()
        builder.mask = builder.element(builder.words["masks"], builder.row64)
        builder.lanes = builder.counters.number(builder.mask)
        builder.counters.warp(builder.words["wholes"], builder.row64, builder.mask)
        self.trail.warp()
        self._clear()
        self.memory.warp()
        self.inputs.warp()
        if builder.region.barriers:
            first = code.make(f"icmp eq i64 {code.load('i64', self.phase)}, 0")
            code.branch(first, "start", "again")
            self.converged.resume()
        else:
            code.line("br label %start")
        code.label("start")

    def _clear(self) -> None:
        """Reset the state of a warp, at the start and behind a barrier."""
        builder = self.builder
        for pointer in (builder.back_edge_count, builder.path):
            builder.code.store("i64", "0", pointer)
        self.interference.warp()
        if self.apart is not None:
            self.apart.warp()
        if builder.kinds.diverging:
            self.diverged.clear()

    def _cta(self) -> None:
        """What the warps of a CTA share."""
        builder = self.builder
        column = builder.element(builder.words["columns"], builder.cta64)
        builder.column = builder.code.make(f"sext i32 {column} to i64")
        self.inputs.cta()
        self.memory.cta()

    def _next(self) -> None:
        """The ends of the loops: a warp has exited or waits at a barrier."""
        builder, code, region = self.builder, self.builder.code, self.builder.region
        code.label("left")
        if region.barriers:
            state = code.at(builder.words["states"], "i32", builder.now_member)
            code.store("i32", "-1", state)
        back_edges, longest = (
            code.load("i64", builder.back_edge_count),
            code.load("i64", self.longest),
        )
        more = code.make(f"icmp sgt i64 {back_edges}, {longest}")
        code.store("i64", code.make(f"select i1 {more}, i64 {back_edges}, i64 {longest}"), self.longest)
        path = code.load("i64", builder.path)
        for how, pointer in (("or", builder.any_path), ("and", builder.every_path)):
            old = code.load("i64", pointer)
            code.store("i64", code.make(f"{how} i64 {old}, {path}"), pointer)
        code.line("br label %done")
        code.label("done")
        if self.apart is not None:
            self.apart.done()
        self.interference.done()
        if region.barriers:
            code.line("br label %passed")
            code.label("passed")
        member = code.make(f"add i64 {builder.now_member}, 1")
        code.store("i64", member, self.member)
        last = code.make(f"icmp eq i64 {member}, {builder.words['per_group']}")
        code.branch(last, "all", "warp")
        code.label("all")
        if region.barriers:
            waiting = code.load("i64", builder.waiting)
            nobody = code.make(f"icmp eq i64 {waiting}, 0")
            code.branch(nobody, "cta_done", "arrived")
            code.label("arrived")
            every = code.make(f"icmp eq i64 {waiting}, {builder.words['per_group']}")
            place = code.load("i32", builder.place)
            together = code.make(f"and i1 {every}, {code.make(f'icmp sge i32 {place}, 0')}")
            code.store("i1", code.make(f"xor i1 {together}, true"), builder.leaving)
            code.store("i64", code.make("add i64 " + code.load("i64", self.phase) + ", 1"), self.phase)
            passed = code.make(f"zext i1 {together} to i64")
            old = builder.word("passed")
            builder.put_word("passed", code.make(f"add i64 {old}, {passed}"))
            self.memory.barrier_passed()
            code.line("br label %phase")
            code.label("cta_done")
            self.interference.cta_done()
        code.store("i64", code.make("add i64 " + code.load("i64", builder.group) + ", 1"), builder.group)
        code.line("br label %group")
        code.label("finish")
        self.memory.finish()
        for number, slot in enumerate(region.outs):
            if slot not in builder.varying:
                value = code.load("i64", builder.results[slot])
                code.store("i64", value, builder.descriptor("outs", number))
        builder.put_word("longest", code.load("i64", self.longest))
        builder.put_word("changed", code.load("i64", builder.changed))
        several = code.make(
            "icmp ne i64 " + ", ".join(code.load("i64", p) for p in (builder.any_path, builder.every_path))
        )
        parted = code.make(f"or i1 {several}, {code.load('i1', builder.parted)}")
        builder.put_word("parted", code.make(f"zext i1 {parted} to i64"))
        builder.put_word("common_exit", code.make(f"sext i32 {code.load('i32', builder.common)} to i64"))
        self.interference.finish()
        code.line("ret i32 0")
