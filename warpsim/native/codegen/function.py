"""The text of a region: a loop over CTAs and their warps, and in it the blocks.

A warp whose lanes all stand at one place runs through the blocks by itself (`whole`); once a branch parts its lanes, the
lowest block of those that wait goes first, as in the interpreter (`apart`). At a barrier a warp puts its registers aside,
and when all warps of its CTA have come, each goes on from there. Registers that several blocks use are kept in slots on
the stack, from which LLVM makes values; inside a block they are values already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from warpsim.native.codegen.access import Access
from warpsim.native.codegen.base import RegionEmitter, Variant
from warpsim.native.codegen.converged import Converged
from warpsim.native.codegen.diverged import Diverged
from warpsim.native.codegen.inputs import InputKind, Inputs
from warpsim.native.codegen.interference import Interference
from warpsim.native.codegen.register_kinds import RegisterKinds, Visit
from warpsim.native.lowering.values import Code, NoCode, Val
from warpsim.native.regions.forms import Key
from warpsim.native.regions.region import Region, Traces
from warpsim.native.runtime.context import CONTEXT, NOWHERE


@attrs.define(eq=False)
class Written:
    """A region's text, and what whoever runs it has to know."""

    text: str
    code: Code
    effects: list[Any]
    once: list[bool]
    outer: list[int]
    """Those of the accesses that whoever runs the region compares among CTAs, or among warps."""
    frame_bytes: int
    spaces: frozenset[str]
    """The spaces that it accesses."""
    left: frozenset[int]
    """The registers that are read after an exit that it may take."""


def write(
    name: str, traces: Traces, region: Region, varying: frozenset[Key], given: Sequence[InputKind], variant: Variant
) -> Written:
    """A region in LLVM's text."""
    kinds = RegisterKinds()
    Emitter(traces, region, varying, given, variant, kinds, NoCode()).analyse()
    emitter = Emitter(traces, region, varying, given, variant, kinds, Code())
    text, access, outer = emitter.text(name), emitter.access, sorted(emitter.interference.before)
    return Written(
        text,
        emitter.code,
        access.ordered,
        access.once,
        outer,
        emitter.converged.frame_bytes,
        frozenset(access.spaces),
        frozenset(emitter.left),
    )


class Emitter(RegionEmitter):
    """Writes one region. ``lives`` and ``outs`` are the order of descriptors in the context."""

    def __init__(
        self,
        traces: Traces,
        region: Region,
        varying: frozenset[Key],
        given: Sequence[InputKind],
        variant: Variant,
        kinds: RegisterKinds,
        code: Code,
    ) -> None:
        super().__init__(traces, region, varying, variant, kinds, code)
        self.interference = Interference(self)
        self.access = Access(self)
        self.inputs = Inputs(self, given)
        self.converged = Converged(self)
        self.diverged = Diverged(self)

    # ---- the function -----------------------------------------------------------------------------

    def analyse(self) -> None:
        """Find the kinds of all registers."""
        self._enter()
        self._warp()
        self.kinds.settle(self._visits, self._visit)

    def _visits(self) -> list[Visit]:
        if not self.kinds.diverging <= set(self.diverged.chunks):
            self.diverged = Diverged(self)
        diverged, slices = self.diverged.chunks, len(self.region.all())
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
        """The module."""
        code = self.code
        self._enter()
        self._warp()
        self.converged.blocks()
        if self.kinds.diverging:
            self.diverged.blocks()
        self._next()
        for why in sorted(self.failures):
            code.label(f"fail{why}")
            code.line(f"ret i32 {why}")
        head = [f"define i32 @{name}(ptr %ctx) {{", "entry:", *code.entry]
        declared = [code.declared[n] for n in sorted(code.declared)]
        return "\n".join([*declared, *head, *code.lines, "}", ""])

    def _enter(self) -> None:
        code = self.code
        numbers = ("n_groups", "per_group", "back_edges", "limit", "log_size")
        self.words = {w: self.word(w) for w in numbers}
        pointers = [
            "rows",
            "ctas",
            "masks",
            "columns",
            "threads",
            "t1",
            "t0",
            "c1",
            "c0",
            "lives",
            "outs",
            "counts",
            "exits",
            "exit_lanes",
            "ranges",
            "frames",
            "states",
            "private",
            "cleans",
        ]
        self.words |= {w: self.word(w, "ptr") for w in pointers}
        tables = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['tables']}")
        code.line(f"%tables = load ptr, ptr {tables}")
        self.log_used = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['log_used']}")
        self.back_edge_count, self.longest = code.slot("i64"), code.slot("i64")
        self.changed, self.parted = code.slot("i64"), code.slot("i1")
        code.line(f"store i1 false, ptr {self.parted}")
        self.path, self.any_path, self.every_path = code.slot("i64"), code.slot("i64"), code.slot("i64")
        code.line(f"store i64 -1, ptr {self.every_path}")
        self.common = code.slot("i32")
        code.line(f"store i32 {NOWHERE}, ptr {self.common}")
        self.group, self.member = code.slot("i64"), code.slot("i64")
        self.waiting, self.place, self.leaving = code.slot("i64"), code.slot("i32"), code.slot("i1")
        self.phase, self.source = code.slot("i64"), code.slot("i32")
        self.results = {s: code.slot("i64") for s in self.region.outs if s not in self.varying}
        self.inputs.enter()
        self.access.enter()
        for pointer in (self.longest, self.group, self.changed, self.any_path, *self.results.values()):
            code.line(f"store i64 0, ptr {pointer}")
        self.interference.enter()
        code.line("br label %group")

    def _warp(self) -> None:
        """From CTA to CTA and from warp to warp, up to where a warp begins."""
        code = self.code
        code.label("group")
        group = code.make(f"load i64, ptr {self.group}")
        code.line(f"br i1 {code.make(f'icmp eq i64 {group}, ' + self.words['n_groups'])}, label %finish, label %began")
        code.label("began")
        code.line(f"store i64 0, ptr {self.phase}")
        code.line(f"store i1 false, ptr {self.leaving}")
        code.line(f"store i32 -1, ptr {self.place}")
        if self.region.barriers:  # all warps of a CTA come one after the other
            self.cta64 = group
            self._cta()
        code.line("br label %phase")
        code.label("phase")
        code.line(f"store i64 0, ptr {self.member}")
        code.line(f"store i64 0, ptr {self.waiting}")
        place = code.make(f"load i32, ptr {self.place}")
        code.line(f"store i32 {code.make(f'add i32 {place}, 1')}, ptr {self.source}")
        code.line(f"store i32 -1, ptr {self.place}")
        if self.region.barriers:
            self.interference.phase()
        code.line("br label %warp")
        code.label("warp")
        member = self.now_member = code.make(f"load i64, ptr {self.member}")
        base = code.make(f"mul i64 {code.make(f'load i64, ptr {self.group}')}, {self.words['per_group']}")
        k = self.now = code.make(f"add i64 {base}, {member}")
        if self.region.barriers:
            self.row64 = member
            self.row, self.cta = (code.make(f"trunc i64 {v} to i32") for v in (self.row64, self.cta64))
        else:
            self.row, self.cta = self.element(self.words["rows"], k), self.element(self.words["ctas"], k)
            self.row64, self.cta64 = (code.make(f"sext i32 {v} to i64") for v in (self.row, self.cta))
            self._cta()
        self.mask = self.element(self.words["masks"], self.row64)
        self.everybody = Val("i1", code.make(f"bitcast i32 {self.mask} to <32 x i1>"), uniform=False)
        count = code.make(f"call i32 @{code.declare('llvm.ctpop.i32', 'i32', 'i32')}(i32 {self.mask})")
        self.lanes = code.make(f"zext i32 {count} to i64")
        self._clear()
        self.access.warp()
        self.inputs.warp()
        if self.region.barriers:
            first = code.make(f"icmp eq i64 {code.make(f'load i64, ptr {self.phase}')}, 0")
            code.line(f"br i1 {first}, label %start, label %again")
            self.converged.resume()
        else:
            code.line("br label %start")
        code.label("start")
        self.converged.start()

    def _clear(self) -> None:
        """A warp comes, at the start or behind a barrier: nothing is left of the warp before it."""
        for pointer in (self.back_edge_count, self.path):
            self.code.line(f"store i64 0, ptr {pointer}")
        self.interference.warp()
        if self.kinds.diverging:
            self.diverged.clear()

    def _cta(self) -> None:
        """What the warps of a CTA share."""
        column = self.element(self.words["columns"], self.cta64)
        self.column = self.code.make(f"sext i32 {column} to i64")
        self.inputs.cta()
        self.access.cta()

    def _next(self) -> None:
        """A warp has left, or waits; then the next one comes."""
        code, region = self.code, self.region
        code.label("left")
        if region.barriers:
            state = code.make(f"getelementptr i32, ptr {self.words['states']}, i64 {self.now_member}")
            code.line(f"store i32 -1, ptr {state}")
        back_edges, longest = (
            code.make(f"load i64, ptr {self.back_edge_count}"),
            code.make(f"load i64, ptr {self.longest}"),
        )
        more = code.make(f"icmp sgt i64 {back_edges}, {longest}")
        code.line(f"store i64 {code.make(f'select i1 {more}, i64 {back_edges}, i64 {longest}')}, ptr {self.longest}")
        path = code.make(f"load i64, ptr {self.path}")
        for how, pointer in (("or", self.any_path), ("and", self.every_path)):
            old = code.make(f"load i64, ptr {pointer}")
            code.line(f"store i64 {code.make(f'{how} i64 {old}, {path}')}, ptr {pointer}")
        code.line("br label %done")
        code.label("done")
        self.interference.done()
        if region.barriers:
            code.line("br label %passed")
            code.label("passed")
        member = code.make(f"add i64 {self.now_member}, 1")
        code.line(f"store i64 {member}, ptr {self.member}")
        last = code.make(f"icmp eq i64 {member}, {self.words['per_group']}")
        code.line(f"br i1 {last}, label %all, label %warp")
        code.label("all")
        if region.barriers:
            waiting = code.make(f"load i64, ptr {self.waiting}")
            nobody = code.make(f"icmp eq i64 {waiting}, 0")
            code.line(f"br i1 {nobody}, label %over, label %meet")
            code.label("meet")
            every = code.make(f"icmp eq i64 {waiting}, {self.words['per_group']}")
            place = code.make(f"load i32, ptr {self.place}")
            together = code.make(f"and i1 {every}, {code.make(f'icmp sge i32 {place}, 0')}")
            code.line(f"store i1 {code.make(f'xor i1 {together}, true')}, ptr {self.leaving}")
            code.line(
                f"store i64 {code.make('add i64 ' + code.make(f'load i64, ptr {self.phase}') + ', 1')}, ptr {self.phase}"
            )
            passed = code.make(f"zext i1 {together} to i64")
            old = self.word("passed")
            self.put_word("passed", code.make(f"add i64 {old}, {passed}"))
            self.access.met()
            code.line("br label %phase")
            code.label("over")
            self.interference.over()
        code.line(
            f"store i64 {code.make('add i64 ' + code.make(f'load i64, ptr {self.group}') + ', 1')}, ptr {self.group}"
        )
        code.line("br label %group")
        code.label("finish")
        for number, slot in enumerate(region.outs):
            if slot not in self.varying:
                value = code.make(f"load i64, ptr {self.results[slot]}")
                code.line(f"store i64 {value}, ptr {self.descriptor('outs', number)}")
        self.put_word("longest", code.make(f"load i64, ptr {self.longest}"))
        self.put_word("changed", code.make(f"load i64, ptr {self.changed}"))
        several = code.make(
            "icmp ne i64 " + ", ".join(code.make(f"load i64, ptr {p}") for p in (self.any_path, self.every_path))
        )
        parted = code.make(f"or i1 {several}, {code.make(f'load i1, ptr {self.parted}')}")
        self.put_word("parted", code.make(f"zext i1 {parted} to i64"))
        self.put_word("common_exit", code.make(f"sext i32 {code.make(f'load i32, ptr {self.common}')} to i64"))
        self.interference.finish()
        code.line("ret i32 0")
