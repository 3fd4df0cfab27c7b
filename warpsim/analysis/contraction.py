"""What the assembler drops, and products that it fuses with the sums that use them.

Operations whose result is their source, or its negation, are dropped: the minimum and the maximum of a value and itself, and
the negation of a negation, in straight code, also through `mov`. (A product by one: see `constants`.) This shows in two
places: a NaN keeps its bits, and a product is fused with a sum behind such an operation.

`mul`, `add` and `sub` without a rounding modifier may become one fused multiply-add (PTX ISA: floating-point add, mul).
ptxas does this for the output of any compiler, so the GPU's bits are those of the fused form. Observed in code of ptxas 13.0:

* `div.approx`, `div.full`, and `rcp.approx` without `.ftz`, end in a product of the reciprocal and its scale. It counts like any
  other product.
* Product and sum have the same type and flushing; the sum may saturate or have a guard, the product may not.
* Every use of the product is such a sum, in the same run of instructions without a branch, possibly through `mov`, `neg` and
  operations that the assembler drops. No sum has the product as both operands. Uses by dead code do not count.
* No division, reciprocal, square root with rounding, or 64-bit integer division stands between them: the assembler makes
  a branch of it.
* No operation between product and sum flushes where the product does not. Of those that flush, only one may change or drop a
  sign: a dropped one, a `neg`, or the sum's own minus.
* Sums take their products in code order; in f32 and f64, those with one use first. Of two products, a sum takes the one with fewer
  uses, or the first; the other is then a plain term, and no later sum takes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import attrs

from warpsim.analysis.flow import KEEP, Block, blocks_of, rewritten
from warpsim.isa.contracted import branches, fused
from warpsim.isa.spec import Body, Form, Op, Scope
from warpsim.isa.traits import PLAIN, Contraction
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction, Operand, Register
from warpsim.records import define

REPEATED = frozenset(f"{root}.{type}" for root in ("min", "max") for type in ("f16", "f32", "ftz.f32", "f64"))
NEGATED = frozenset(f"neg.{type}" for type in ("f16", "f16x2", "bf16", "f32", "f64"))
Held = tuple[Operand, str]
"""A register with the value that another holds, and the negation that lies between them, if any."""


def identities(function: Function) -> dict[int, int]:
    """Minima and maxima of one value, and negations of negations, by place, and the registers that the assembler uses instead."""
    found: dict[int, int] = {}
    if not (REPEATED | NEGATED).isdisjoint([i.op.text for i in function.code]):
        for block in blocks_of(function, entered=True)[0]:
            found |= _identities(function.code, block)
    return found


def drop_identities(function: Function, found: Mapping[int, int]) -> Function:
    """Replace `identities` by their sources."""
    code = list(function.code)
    for at, register in found.items():
        source = Operand(code[at].operands[1].type, function.registers[register])
        code[at] = identity(code[at], source, _flushed(code[at]))
    return rewritten(function, code)


def _identities(code: Sequence[Instruction], block: Block) -> dict[int, int]:
    dropped: dict[int, int] = {}
    held: dict[int, Held] = {}
    holders: dict[int, list[int]] = {}  # of each register's value; also some that have been overwritten since
    for at in range(block.first, block.last):
        instruction = code[at]
        found = _held(instruction, held)
        source = None if found is None else _dropped(instruction, found)
        if source is not None:
            (dropped[at],) = source.registers
        writes = instruction.writes
        for register in writes:
            held.pop(register, None)
            for other in holders.pop(register, ()):
                if other in held and held[other][0].registers == [register]:
                    del held[other]
        if found is None or instruction.guard is not None or flushes(instruction):
            continue
        (kept,) = found[0].registers
        if kept not in writes:
            held[writes[0]] = found
            holders.setdefault(kept, []).append(writes[0])
    return dropped


def _held(instruction: Instruction, held: dict[int, Held]) -> Held | None:
    """The value that the result of an instruction is, subnormals aside, if that is known."""
    text, operands = instruction.text, instruction.operands
    copies = instruction.traits.copies and len(operands) == 2
    if not (copies or text in REPEATED or text in NEGATED) or not all(o.register and not o.negated for o in operands):
        return None
    values = [held.get(o.register.index, (o, "")) for o in operands[1:] if o.register]
    if text in NEGATED:
        ((source, negation),) = values
        return None if negation not in ("", text) else (source, "" if negation else text)
    return values[0] if all(v[0].register is values[0][0].register and v[1] == values[0][1] for v in values) else None


def _dropped(instruction: Instruction, found: Held) -> Operand | None:
    """The register that the assembler uses instead of the result ``found``; None if it keeps the instruction."""
    source = instruction.operands[1]
    if instruction.text in REPEATED and source.register is not None:
        return source
    return found[0] if instruction.text in NEGATED and not found[1] else None


def flushes(instruction: Instruction) -> bool:
    """Whether an instruction makes subnormals zeros."""
    return "ftz" in instruction.op.modifiers


def _flushed(instruction: Instruction) -> Body | None:
    """What is left of a minimum or maximum of one value: nothing, unless it flushes."""
    plain = instruction.form.function
    return (lambda op, value: plain(op, value, value)) if flushes(instruction) else None


def identity(instruction: Instruction, source: Operand, meaning: Body | None = None) -> Instruction:
    """The instruction with one source; its result is the source's bits, or what ``meaning`` makes of them."""
    spec, operands = instruction.form.operands, instruction.operands
    if operands[1].register is not None:
        source = source._replace(type=operands[1].type)
    form = instruction.form.replaced(function=meaning or (lambda op, value: value), operands=(spec[0], spec[-1]))
    traits = attrs.evolve(PLAIN, contraction=Contraction.IDENTITY)
    return attrs.evolve(instruction, form=form, traits=traits, operands=(operands[0], source))


@define(eq=False)
class _Product:
    """A product in the code: factors, type and flushing, uses as (sum, operand, negated), whether its factors have been
    ``written`` since, whether a sum would use it ``late``, after that, and whether a
    branch of the assembler's own keeps it ``separated`` from what follows."""

    at: int
    factors: tuple[Operand, ...]
    kind: tuple[str, ...]
    uses: list[tuple[int, int, bool]] = attrs.Factory(list)
    fusible: bool = True
    written: bool = False
    late: bool = False
    separated: bool = False


_Held = tuple[_Product, bool, int]
"""The product that a register holds, whether negated, and through how many operations that flush."""


Fusion = tuple[int, int, int, bool, bool, bool]
"""The places of a sum and of its product, which operand that is, whether negated; whether the product's factors are overwritten
before a sum, and whether the sum stands in a later block."""


def fusions(function: Function) -> list[Fusion]:
    """The sums that the assembler fuses with a product."""
    if not any(i.traits.contraction is Contraction.PRODUCT and _kind(i) for i in function.code):
        return []
    found: list[Fusion] = []
    blocks, _ = blocks_of(function, entered=True)
    for run in _runs(blocks):
        live = {r for s in run[-1].successors for r in blocks[s].live_in}
        if KEEP in function.directives and not run[-1].successors:
            live.update(range(len(function.registers)))
        for at, (product, operand, negative) in _fusions(function, run, live).items():
            across = any(product.at < block.first <= at for block in run)
            found.append((at, product.at, operand, negative, product.late, across))
    return found


def contract(function: Function, found: Sequence[Fusion]) -> Function:
    """Replace the sums of `fusions` by the fused form."""
    code, registers = list(function.code), list(function.registers)
    factors: dict[int, tuple[Operand, ...]] = {}
    for at, product, operand, negative, late, _ in found:
        if product not in factors:
            factors[product] = code[product].operands[1:]
            if late:
                code[product], factors[product] = _keep_factors(code[product], registers)
        code[at] = _sum(code[at], code[product], factors[product], operand, negative=negative)
    # in its own block, the product's factors are read, and the product is written: liveness stays
    lives = not any(across for *_, across in found)
    return rewritten(function, code, registers[len(function.registers) :], lives=lives)


def _keep_factors(instruction: Instruction, registers: list[Register]) -> tuple[Instruction, tuple[Operand, ...]]:
    """A product that keeps its factors in new registers, because they are overwritten before a sum uses them; and the factors there."""
    form, plain = instruction.form, instruction.form.function
    d, *factors = instruction.operands
    places = {}
    for k, factor in enumerate(factors):
        old = factor.register
        if old is not None:
            registers.append(Register(f"{old.name} in line {instruction.span.line}", len(registers), old.type))
            places[k] = Operand(factor.type, registers[-1])

    def function(op: Op, *factors: Array) -> tuple[Array, ...]:
        return (plain(op, *factors), *[factors[k] for k in places])

    n_dest = 1 + len(places)
    specs = (*[form.operands[0]] * n_dest, *form.operands[1:])
    form = form.replaced(function=function, n_dest=n_dest, operands=specs)
    made = attrs.evolve(instruction, form=form, operands=(d, *places.values(), *factors))
    return made, tuple([places.get(k, factor) for k, factor in enumerate(factors)])


def _sum(
    instruction: Instruction, product: Instruction, factors: tuple[Operand, ...], operand: int, *, negative: bool
) -> Instruction:
    """The fused form of an add or sub that has a product with these factors as an operand."""
    d, *terms = instruction.operands
    minus = instruction.traits.contraction is Contraction.DIFFERENCE
    function = fused(
        _kind(product)[-1],
        product.traits.factors,
        negative_product=negative ^ (minus and operand == 1),
        negative_sum=minus and operand == 0,
    )
    form = _fused_form(instruction.form, function, len(factors) + 1)
    return attrs.evolve(instruction, form=form, operands=(d, *factors, terms[1 - operand]))


@functools.lru_cache(maxsize=256)
def _fused_form(form: Form, function: Body, n_sources: int) -> Form:
    """The form of a sum that means ``function``: one for all that are alike, so that its graph is made once."""
    sources = [attrs.evolve(form.operands[-1], name=name) for name in "abc"[:n_sources]]
    return form.replaced(function=function, operands=(form.operands[0], *sources))


def _runs(blocks: list[Block]) -> Iterator[list[Block]]:
    """Yield runs of blocks, in code order, between which control flow can only fall through."""
    entered = [0] * len(blocks)
    for block in blocks:
        for successor in block.successors:
            entered[successor] += 1
    run: list[Block] = []
    for block in sorted(blocks, key=lambda b: b.first):
        if run and (run[-1].successors != (block.index,) or entered[block.index] != 1):
            yield run
            run = []
        run.append(block)
    yield run


def _fusions(function: Function, run: list[Block], live: set[int]) -> dict[int, tuple[_Product, int, bool]]:
    """The fusions in a run with registers ``live`` at its end: sum -> (product, operand, negated)."""
    products = _Products()
    places = range(run[0].first, run[-1].last)
    dead = _dead(function, places, live)
    for at in places:
        instruction = function.code[at]
        if not products.holds and instruction.traits.contraction is None:  # most instructions
            products.overwrite(instruction.writes)
        else:
            products.follow(at, instruction, dropped=at in dead)
    for r in live & products.holds.keys():
        products.holds[r][0].fusible = False
    return _chosen(products.sums)


class _Products:
    """The products of a run, followed through its code."""

    def __init__(self) -> None:
        self.holds: dict[int, _Held] = {}
        """The registers that hold a product."""
        self.users: dict[int, list[_Product]] = {}
        """The products that have a register as a factor, until it is overwritten."""
        self.sums: dict[int, list[_Product]] = {}
        """The products that each sum may be fused with."""

    def overwrite(self, registers: tuple[int, ...]) -> None:
        """Registers get other contents."""
        for r in registers:
            self.holds.pop(r, None)
            for product in self.users.pop(r, ()):
                product.written = True

    def follow(self, at: int, instruction: Instruction, *, dropped: bool) -> None:
        """Note what an instruction does with products. ``dropped``: the assembler drops it; here it still writes."""
        reads, writes = instruction.reads, instruction.writes
        if not dropped and branches(instruction.form.root, instruction.op):
            for product, _, _ in self.holds.values():
                product.separated = True
        kind = () if dropped else _kind(instruction)
        makes = bool(kind) and instruction.traits.contraction is Contraction.PRODUCT
        held = [] if dropped else [self.holds[r] for r in dict.fromkeys(reads) if r in self.holds]
        copied: _Held | None = None
        if kind and not makes:
            self._sum(at, instruction, kind)
        elif held and _is_copy(instruction) and (not flushes(instruction) or "ftz" in held[0][0].kind):
            product, negative, flushed = held[0]
            negates = instruction.traits.contraction is Contraction.NEGATION
            copied = product, negative ^ negates, flushed + flushes(instruction)
        else:
            _keep(held)
        if instruction.guard is not None:
            _keep([self.holds[r] for r in set(writes) & self.holds.keys()])
        self.overwrite(writes)
        if copied is not None:
            self.holds[writes[0]] = copied
        elif makes and instruction.guard is None:
            self._product(at, instruction, kind)

    def _sum(self, at: int, instruction: Instruction, kind: tuple[str, ...]) -> None:
        """Note the products that a sum adds."""
        found: list[_Product] = []
        self.sums[at] = found
        for number, operand in enumerate(instruction.operands[1:]):
            if operand.register is None or operand.register.index not in self.holds:
                continue
            product, negative, flushed = self.holds[operand.register.index]
            minus = number == 1 and instruction.traits.contraction is Contraction.DIFFERENCE
            if product.kind == kind and product not in found and flushed + minus <= 1 and not product.separated:
                product.late |= product.written
                found.append(product)
                product.uses.append((at, number, negative))
            else:
                product.fusible = False

    def _product(self, at: int, instruction: Instruction, kind: tuple[str, ...]) -> None:
        """Note a product, which its destination holds from now on."""
        reads, writes = instruction.reads, instruction.writes
        over = bool(set(reads) & set(writes))
        product = _Product(at, instruction.operands[1:], kind, written=over)
        self.holds[writes[0]] = product, False, 0
        for factor in product.factors:
            for r in factor.registers:
                self.users.setdefault(r, []).append(product)


def _keep(products: list[_Held]) -> None:
    """Products that something else uses cannot be fused."""
    for product, _, _ in products:
        product.fusible = False


def _chosen(sums: dict[int, list[_Product]]) -> dict[int, tuple[_Product, int, bool]]:
    """Choose the product of each sum, for ``sums`` in code order."""
    chosen: dict[int, tuple[_Product, int, bool]] = {}
    for first in (True, False):
        for at, products in sums.items():
            open_ = [p for p in products if p.fusible]
            if first:
                open_ = [p for p in open_ if len(p.uses) == 1 and p.kind[-1] in ("f32", "f64")]
            if at in chosen or not open_:
                continue
            taken = min(open_, key=lambda p: len(p.uses))
            operand, negative = next((operand, negative) for s, operand, negative in taken.uses if s == at)
            chosen[at] = taken, operand, negative
            for product in products:
                if product is not taken:
                    product.fusible = False
    return chosen


def _kind(instruction: Instruction) -> tuple[str, ...]:
    """Flushing and type of a product or sum that may be fused; empty for any other instruction."""
    if instruction.traits.contraction in (None, Contraction.NEGATION, Contraction.IDENTITY):
        return ()
    if not all(o.is_plain for o in instruction.operands):
        return ()
    return tuple(w for w in instruction.op.modifiers if w not in ("sat", "approx", "full"))


def _is_copy(instruction: Instruction) -> bool:
    """A `mov` or `neg` of a whole register, or an operation that the assembler drops."""
    moves = instruction.traits.copies or instruction.traits.contraction in (Contraction.NEGATION, Contraction.IDENTITY)
    return moves and instruction.guard is None and all(o.register is not None for o in instruction.operands)


def _dead(function: Function, places: range, live: set[int]) -> set[int]:
    """Side-effect-free instructions whose results are never read."""
    live, dead = set(live), set()
    for at in reversed(places):
        instruction = function.code[at]
        reads, writes = instruction.reads, instruction.writes
        form = instruction.form
        plain = form.scope is Scope.THREAD and not form.ports
        if plain and writes and live.isdisjoint(writes):
            dead.add(at)
            continue
        if instruction.guard is None:
            live.difference_update(writes)
        live.update(reads)
    return dead
