"""Finds registers that hold the same constant in every thread, as NVIDIA's assembler does, and what it computes from
them.

The assembler evaluates operations on constants. This shows in a result's bits in two places: a function that the GPU
only approximates is rounded correctly, and a product of constants is no longer a product that could be fused with a sum
(see `contraction`). It propagates constants through the operations of `FOLDED`, through branches with a constant
condition, and through joins whose paths bring the same constant (as observed in code made by ptxas 13.0). Loops that it
unrolls are not followed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.analysis.contraction import flushes, identity
from warpsim.analysis.dataflow import needed
from warpsim.analysis.flow import KEEP, Block, blocks_of, rewritten, written_often
from warpsim.isa.spec import Body, Op, Scope
from warpsim.isa.traits import PLAIN, Contraction, Ending
from warpsim.numerics import approx
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction, Operand
from warpsim.types import ScalarType

State = dict[int, int | None]
"""Contents of registers: bits, or None if unknown. A missing register has not been written on any path so far."""
FOLDED = r"""
    (add|sub|mul)(\.rn)?(\.ftz)?\.f32 | (add|sub|mul)(\.ftz)?\.sat\.f32 | (add|sub|mul)\.f64
    | (min|max|abs|neg)(\.ftz)?\.f32 | (min|max|abs|neg)\.f64 | abs\.f16(x2)? | neg\.(b?f16|f16x2)
    | (sin|cos|ex2|lg2|rcp|rsqrt|sqrt)\.approx(\.ftz)?\.f32 | div\.(approx|full)(\.ftz)?\.f32
    | (add|sub|mul\.lo|mad\.lo)\.[us](16|32|64) | (add|sub)\.sat\.s32 | mul\.hi\.[us](16|32) | mad\.hi\.[us]16
    | (mul|mad)\.wide\.[us](16|32) | mul24\.(lo|hi)\.[us]32 | mad24\.lo\.[us]32 | (min|max)\.[us](16|32) | (abs|neg)\.s(16|32|64)
    | (and|or|xor)\.(b16|b32|pred) | not\.(b16|b32|b64|pred) | (cnot|shl)\.b(16|32|64) | shr\.[bus](16|32)
    | (popc|clz|brev)\.b(32|64) | bfi\.b32 | bfe\.[us]32 | bfind\.[us](32|64) | shf\.[lr]\.(wrap|clamp)\.b32
    | (mov|selp)\.(pred|[bus](16|32|64)|f32|f64) | slct(\.ftz)?\.([bus](16|32|64)|f32|f64)\.(s32|f32)
    | setp?\.\w+(\.(and|or|xor))?(\.ftz)?(\.[us]32|\.f32)?\.([bus](16|32|64)|f32|f64) | testp\.\w+\.f32
    | cvt(\.sat)?\.[us](8|16|32|64)\.[us](8|16|32|64) | cvt\.rn\.f32\.[us](16|32) | cvt\.rn(\.ftz)?\.f32\.f64
    | cvt(\.ftz)?\.f64\.f32 | cvt\.f64\.f16 | cvt(\.ftz)?\.f32\.f16 | cvt\.f32\.bf16 | cvt\.rn(\.ftz)?\.f16\.f32
    | cvt\.rn\.(f16\.f64|bf16\.f32|f16x2\.f32) | cvt\.rna\.tf32\.f32 | cvt\.r[nzmp]i(\.ftz)?\.f32\.f32 | cvt(\.ftz)?\.sat\.f32\.f32
    | cvt\.r[nz]i(\.ftz)?\.(u16|u32|s32|u64|s64)\.f32 | cvt\.r[nz]i\.(u16|u32|s32|u64|s64)\.f64 | cvt\.r[nz]i\.(u16|u32|s32)\.f16
    | cvt\.r[nz]i\.f64\.f64
"""
"""The operations that the assembler evaluates. Compiling all of this takes 1 ms, so each is by itself."""
BY_ONE = r"mul(\.rn)?(\.ftz)?\.f32 | mul\.f64 | mul(\.ftz)?\.f16 | mul\.bf16 | div\.(approx|full)(\.ftz)?\.f32"
"""Products and quotients by one and, without .rn, by minus one: the assembler drops them."""
ONES = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0 << 48}
MINUS_ONES = {"f16": 0xBC00, "bf16": 0xBF80, "f32": 0xBF800000, "f64": 0xBFF0 << 48}
Change = tuple[str, int, int]
"""What the assembler computes of an instruction (`_CHANGES`), by which source, and the bits of the result or that operand."""


def constants(function: Function) -> dict[int, Change]:
    """Approximations, products and sums of which the assembler computes something visible, by place."""
    shown = any(_shows(i.op, i.traits.contraction) for i in function.code)
    return Constants(function).changes if shown else {}


def fold(function: Function, found: Mapping[int, Change]) -> Function:
    """Replace `constants` by what the assembler computes."""
    code = list(function.code)
    for at, (kind, source, bits) in found.items():
        code[at] = _CHANGES[kind](code[at], source, bits)
    return rewritten(function, code)


@functools.lru_cache(maxsize=4096)
def _shows(op: Op, contraction: Contraction | None) -> bool:
    """Whether the result depends on who computes an instruction: an approximation, or a candidate for fusing."""
    if _by_one(op.text):
        return True
    if contraction not in (None, Contraction.NEGATION):
        return _computed(op.text) and op.modifiers[-1] in ("f32", "f64")
    return "approx" in op.modifiers or op.text.startswith(("div.full", "mul.ftz.sat"))


def _constant(instruction: Instruction, source: int, bits: int) -> Instruction:
    """The instruction with a constant result, which no longer counts as a product or sum."""
    value = _array(bits, instruction.operands[0].type)
    form = instruction.form.replaced(function=lambda op, *sources: value)
    return attrs.evolve(instruction, form=form, traits=PLAIN)


def _by_constant(instruction: Instruction, source: int, bits: int) -> Instruction:
    """A quotient by a constant: the assembler computes the reciprocal."""
    divisor, factors = _array(bits, instruction.operands[source].type), instruction.traits.factors
    meaning, (unit, _) = _meaning(instruction), _units()["rcp"]
    assert factors is not None
    return attrs.evolve(
        instruction,
        form=instruction.form.replaced(function=lambda op, a, b: meaning(op, a, divisor)),
        traits=attrs.evolve(instruction.traits, factors=lambda a, b: factors(a, divisor, unit)),
    )


@functools.cache
def _units() -> dict[str, tuple[Callable[..., Array], Callable[..., Array] | None]]:
    """The function units, rounded correctly, and what the assembler computes around each: without .ftz, or always."""
    from warpsim.numerics import rounded  # few kernels compute on constants

    return {
        "sin": (rounded.sin, None),
        "cos": (rounded.cos, None),
        "ex2": (rounded.ex2_ftz, approx.ex2),
        "lg2": (rounded.lg2_ftz, approx.lg2),
        "rcp": (rounded.rcp_ftz, approx.rcp),
        "rsqrt": (rounded.rsqrt_ftz, approx.rsqrt),
        "sqrt": (rounded.sqrt_ftz, approx.sqrt),
        "div.approx.ftz": (rounded.rcp_ftz, approx.div_ftz),
        "div.approx": (rounded.rcp_ftz, approx.div),
        "div.full.ftz": (rounded.rcp_ftz, approx.div_full_ftz),
        "div.full": (rounded.rcp_ftz, approx.div_full),
    }


def _times_one(instruction: Instruction, source: int, factor: int) -> Instruction:
    """A product or quotient by one or minus one: no product that could be fused, but what it is made of still can."""
    operand = instruction.operands[source]
    constant = _array(factor, operand.type)
    plain = _meaning(instruction) if instruction.form.root == "div" else instruction.form.function
    negative = factor != ONES[instruction.op.modifiers[-1]]
    moved = not (negative or {"ftz", "rn"} & set(instruction.op.modifiers))
    found = identity(instruction, operand, None if moved else lambda op, value: plain(op, value, constant))
    if instruction.text == "mul.ftz.f16":
        return attrs.evolve(found, traits=PLAIN)
    kind = Contraction.NEGATION if negative else Contraction.IDENTITY
    return attrs.evolve(found, traits=attrs.evolve(found.traits, contraction=kind))


_CHANGES = {"constant": _constant, "by constant": _by_constant, "times one": _times_one}
CHAIN = 8
"""So many instructions that make one constant are followed."""
PARTLY = frozenset(("and", "or", "mul", "xor", "selp", "slct"))
"""Operations whose result may be constant where not all of their operands are."""


class Constants:
    """The constants of a function: sparse for registers with a single writer, by block for the others. With ``asked``, registers
    by place, only what they depend on is looked at, nothing changes, and ``answers`` are their values there, of places that some path reaches.
    The result of the instruction at ``false`` counts as false."""

    def __init__(self, function: Function, asked: Mapping[int, int] | None = None, *, false: int | None = None) -> None:
        self.function, self.false = function, false
        self.blocks, self.place = blocks_of(function, entered=True)
        self.asked, self.answers = asked or {}, dict[int, int | None]()
        self.touched = [i.writes for i in function.code]
        if asked is not None:
            needed = _needed(function, asked.values())
            self.touched = [() if needed.isdisjoint(writes) else writes for writes in self.touched]
        self.computed = [_is_computed(i) for i in function.code]
        self.partly = [i.form.root in PARTLY or i.guard is not None for i in function.code]
        self.shows = [
            asked is None and _shows(i.op, i.traits.contraction) and i.operands[0].register is not None
            for i in function.code
        ]
        given = [r.index for p in (*function.params, *function.returns) for r in p.registers]
        if KEEP in function.directives:
            given = list(range(len(function.registers)))
        self.often = written_often(function) | set(given)
        self.once: State = {}
        self.changes: dict[int, Change] = {}
        self.before: list[State | None] = [None] * len(self.blocks)
        if self.blocks:
            self.before[self.place[0]] = dict.fromkeys(given)
            self._settle()

    @property
    def reached(self) -> set[int]:
        """The places that some path reaches."""
        return {
            at for block in self.blocks if self.before[block.index] is not None for at in range(block.first, block.last)
        }

    def leaving(self, places: set[int]) -> set[int]:
        """Where paths lead that leave these places."""
        found = set()
        for block in self.blocks:
            entry = self.before[block.index]
            if entry is not None and block.first in places:
                state = dict(entry)
                for at in range(block.first, block.last):
                    if self.touched[at]:
                        self._apply(at, state)
                found |= {self.blocks[n].first for n in self._followers(block, state)} - places
        return found

    def _settle(self) -> None:
        """Visit the blocks, and again while a back edge brings something new."""
        again = True
        while again:
            again = False
            for block in self.blocks:
                entry = self.before[block.index]
                if entry is None:
                    continue
                state = dict(entry)
                for at in range(block.first, block.last):
                    if at in self.asked:
                        self.answers[at] = self._read(state, self.asked[at])
                    if self.touched[at]:
                        self._apply(at, state)
                for successor in self._followers(block, state):
                    again |= self._bring(state, successor) and successor <= block.index

    def _bring(self, state: State, successor: int) -> bool:
        """Merge a state into that before a block; True if it changed."""
        live, old = self.blocks[successor].live_in, self.before[successor]
        coming = {r: v for r, v in state.items() if r in live}
        if old is None:
            self.before[successor] = coming
            return True
        changed = False
        for r, value in coming.items():
            if r not in old or (old[r] != value and old[r] is not None):
                old[r] = value if r not in old else None
                changed = True
        return changed

    def _followers(self, block: Block, state: State) -> tuple[int, ...]:
        """The blocks that may come next."""
        last = self.function.code[block.last - 1]
        if last.traits.ending is Ending.BRANCH and last.guard is not None and len(block.successors) > 1:
            holds = self._holds(last, state)
            if holds is not None:
                return (self.place[last.targets[0] if holds else block.last],)
        return block.successors

    def _holds(self, instruction: Instruction, state: State) -> bool | None:
        """Whether an instruction's guard is true; None if unknown."""
        if instruction.guard is None:
            return True
        register, negated = instruction.guard
        value = self._read(state, register.index)
        return None if value is None else bool(value) != negated

    def _read(self, state: State, register: int) -> int | None:
        return state.get(register) if register in self.often else self.once.get(register)

    def _apply(self, at: int, state: State) -> None:
        """Update a state for an instruction, and note its transformation."""
        instruction, writes = self.function.code[at], self.touched[at]
        holds = instruction.guard is None or self._holds(instruction, state)
        if holds is False:
            return
        made = [0] * len(writes) if at == self.false else None
        if self.computed[at] and (self.partly[at] or self._knows(instruction, state)):
            made = self._made(instruction, state)
        if self.shows[at]:
            self._note(at, made, state)
        if made is not None and len(made) != len(writes):
            made = None
        for k, r in enumerate(writes):
            value = None if made is None else made[k]
            if r in self.often:
                state[r] = value if holds or (r in state and state[r] == value) else None
            elif self.once.setdefault(r, value) != value:
                self.once[r] = None

    def _knows(self, instruction: Instruction, state: State) -> bool:
        """Whether every register that it reads is constant."""
        for r in instruction.reads:  # noqa: SIM110  at every instruction that is computed: no calls
            if (state if r in self.often else self.once).get(r) is None:
                return False
        return True

    def _note(self, at: int, made: list[int] | None, state: State) -> None:
        instruction = self.function.code[at]
        self.changes.pop(at, None)
        if made is not None:
            self.changes[at] = "constant", 0, made[0]
        elif (found := self._one(instruction, state)) is not None:
            self.changes[at] = "times one", *found
        elif instruction.form.root == "div" and self.computed[at]:
            divisor = self._operand(instruction.operands[2], state)
            if divisor is not None:
                self.changes[at] = "by constant", 2, divisor

    def _one(self, instruction: Instruction, state: State) -> tuple[int, int] | None:
        """The source that an instruction multiplies or divides by one or minus one, and that factor."""
        if instruction.guard is not None or not _by_one(instruction.text):
            return None
        type = instruction.op.modifiers[-1]
        factors = (ONES[type],) if "rn" in instruction.op.modifiers else (ONES[type], MINUS_ONES[type])
        for source in (1, 2) if instruction.form.root == "mul" else (1,):
            factor = self._operand(instruction.operands[3 - source], state)
            if factor is not None and factor in factors and instruction.operands[source].register is not None:
                return source, factor
        return None

    def _made(self, instruction: Instruction, state: State) -> list[int] | None:
        """The bits that an instruction writes to its registers."""
        form = instruction.form
        values = [self._operand(operand, state) for operand in instruction.inputs]
        if form.root in ("and", "or", "mul"):
            absorbing = _absorbing(instruction)
            if absorbing is not None and absorbing in values[:2]:
                return [absorbing]
        if form.root == "xor" and instruction.operands[1] == instruction.operands[2]:
            return [0]
        known = [v for v in values if v is not None]
        if form.root in ("selp", "slct") and values[2] is not None:  # the other choice does not matter
            known = [k if v is None else v for v, k in zip(values, (0, 0, values[2]), strict=True)]
            chosen = _evaluated(instruction, known)
            if chosen is None or (values[0] is not None and values[0] == values[1]):
                return chosen
            first = values[2] == 1 if form.root == "selp" else _evaluated(instruction, [0, 1, values[2]]) == [0]
            return chosen if values[0 if first else 1] is not None else None
        return _evaluated(instruction, known) if len(known) == len(values) else None

    def _operand(self, operand: Operand, state: State) -> int | None:
        """The bits of a source operand, in its type's width."""
        if operand.constant is not None:
            return operand.constant & _mask(operand.type)
        if operand.register is not None and operand.register.type.bits >= operand.type.bits:
            value = self._read(state, operand.register.index)
            if value is None:
                return None
            return (value ^ _mask(operand.type) if operand.negated else value) & _mask(operand.type)
        if operand.elements is not None:
            total = at = 0
            for element in operand.elements:
                part = self._operand(element, state)
                if part is None:
                    return None
                total |= part << at
                at += element.type.bits
            return total
        return None


def known_at_once(function: Function, asked: Collection[int]) -> dict[int, int] | None:
    """The constants in some registers, where each has one writer that makes it of immediates or of such registers, wherever
    control goes; None where that is not so."""
    writers: dict[int, Instruction | None] = {}
    for instruction in function.code:  # every one of a kernel comes here: no calls
        for register in instruction.writes:
            writers[register] = None if register in writers or instruction.guard is not None else instruction
    given = {r.index for p in (*function.params, *function.returns) for r in p.registers}
    found = {r: _alone(r, writers, CHAIN) for r in asked if r not in given and KEEP not in function.directives}
    known = {register: value for register, value in found.items() if value is not None}
    return known if len(known) == len(asked) else None


def _alone(register: int, writers: Mapping[int, Instruction | None], left: int) -> int | None:
    instruction = writers.get(register)
    if instruction is None or not left or not _is_computed(instruction):
        return None
    values = []
    for operand in instruction.inputs:
        value, source = operand.constant, operand.register
        if source is not None and source.type.bits >= operand.type.bits and not operand.negated:
            value = _alone(source.index, writers, left - 1)
        if value is None:
            return None
        values.append(value & _mask(operand.type))
    made = _evaluated(instruction, values)
    return made[0] if made is not None and len(made) == 1 == len(instruction.writes) else None


def _is_computed(instruction: Instruction) -> bool:
    """Whether the assembler evaluates an instruction on constants."""
    form = instruction.form
    return _computed(instruction.op.text) and not form.ports and form.scope is Scope.THREAD


def _needed(function: Function, asked: Iterable[int]) -> set[int]:
    """The registers on which some, and where control goes, depend."""
    sources: dict[int, list[tuple[int, ...]]] = {}
    work = list(asked)
    for instruction in function.code:
        guard = () if instruction.guard is None else (instruction.guard[0].index,)
        if instruction.traits.ending is Ending.BRANCH:
            work += guard
        read = (*instruction.reads, *guard)
        for register in instruction.writes:
            sources.setdefault(register, []).append(read)
    return needed(work, sources)


@functools.cache
def _computed(text: str) -> bool:
    """Whether the assembler evaluates an operation on constants."""
    root = text.partition(".")[0]
    return any(re.fullmatch(one, text, re.VERBOSE) for one in FOLDED.split(" | ") if root in one)


@functools.cache
def _by_one(text: str) -> bool:
    return text.startswith(("mul", "div")) and re.fullmatch(BY_ONE, text, re.VERBOSE) is not None


def _absorbing(instruction: Instruction) -> int | None:
    """The constant that determines a result on its own."""
    root, type = instruction.form.root, instruction.op.modifiers[-1]
    if type[0] in "bus" and (root == "and" or (root == "mul" and "hi" not in instruction.op.modifiers)):
        return 0
    return (1 << int(type[1:])) - 1 if root == "or" and type[0] == "b" else None


def _evaluated(instruction: Instruction, values: list[int]) -> list[int] | None:
    """The registers that an operation on constants writes; None if the assembler leaves it to the GPU."""
    form, op, destination = instruction.form, instruction.op, instruction.operands[0]
    sources = instruction.inputs
    if instruction.traits.copies:
        bits = values[0]
        if destination.elements is not None:
            parts, at = [], 0
            for element in destination.elements:
                if element.register is None:
                    return None
                parts.append(bits >> at & _mask(element.type))
                at += element.type.bits
            return parts
        return [bits]
    if destination.register is None or form.n_dest != 1 or any(o.elements is not None for o in sources):
        return None
    arrays = [_array(v, o.type) for v, o in zip(values, sources, strict=True)]
    if flushes(instruction) and form.root in ("mul", "div") and "rn" not in op.modifiers:
        arrays = _kept_from_infinity(form.root, *arrays)
    with np.errstate(all="ignore"):
        result = np.asarray(_meaning(instruction)(op, *arrays))
    if result.dtype.kind == "f" and np.isnan(result).any() and "approx" in op.modifiers:
        return None
    if destination.type.kind != "p" and result.dtype.itemsize * 8 != destination.type.bits:
        result = result.astype(destination.type.dtype)
    bits = _bits(result)
    wide = destination.register.type
    if wide.bits > destination.type.bits and destination.type.signed and bits >> (destination.type.bits - 1):
        bits |= _mask(wide) & ~_mask(destination.type)
    return [bits]


def _kept_from_infinity(root: str, a: Array, b: Array) -> list[Array]:
    """The operands of a flushing product or quotient, without subnormals that meet an infinite factor: the assembler takes
    the product, infinity, before it flushes them."""
    a_is_tiny, b_is_tiny = (np.abs(x) < np.finfo(np.float32).tiny for x in (a, b))
    a_meets, b_meets = (b_is_tiny, False) if root == "div" else (np.isinf(b), np.isinf(a))
    one = np.float32(1)
    return [
        np.where(a_is_tiny & (a != 0) & a_meets, np.copysign(one, a), a),
        np.where(b_is_tiny & (b != 0) & b_meets, np.copysign(one, b), b),
    ]


def _meaning(instruction: Instruction) -> Body:
    """The function of an operation on constants, with approximate units rounded correctly."""
    root = instruction.form.root
    if root == "div":
        unit, whole = _units()[instruction.text.removesuffix(".f32")]
    elif root in _units():
        unit, whole = _units()[root]
        if instruction.op.ftz:
            whole = None
    else:
        return instruction.form.function
    if whole is None:
        return lambda op, *values: unit(*values)
    return lambda op, *values: whole(*values, unit)


def _mask(type: ScalarType) -> int:
    return (1 << type.bits) - 1


def _array(bits: int, type: ScalarType) -> Array:
    if type.kind == "p":
        return np.array([bool(bits)])
    return np.array([bits], f"u{type.dtype.itemsize}").view(type.dtype)


def _bits(value: ArrayLike) -> int:
    flat = np.ascontiguousarray(value).reshape(-1)[:1]
    return int(flat[0]) if flat.dtype.kind == "b" else int(flat.view(f"u{flat.dtype.itemsize}")[0])
