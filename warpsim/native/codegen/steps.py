"""Code of a block's instructions, for converged and for diverged warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from warpsim.graph.nodes import LANES
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import IRBuilder, Val, scalar
from warpsim.native.regions.forms import Key, Product, Traced
from warpsim.native.runtime.context import DIVERGED, STOPPED, WRAPPED
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.native.codegen.accesses import Accesses
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.inputs import Inputs


def call(code: IRBuilder, product: Product | None, lower: Lowering) -> dict[tuple[int, int], Val]:
    """Call a matrix product (see `warpsim.native.matrix.kernels.warp_kernel`); the registers that it returns."""
    if product is None:
        return {}
    values = [lower(node) for node in product.values]
    words, buffers = _frame(code, product)
    for value, buffer in zip(values, buffers, strict=False):
        vector = code.splat(code.flat(value))
        code.put(vector, buffer, 64)
    code.products[product.name] = product.text
    code.call(product.name, "i32", f"ptr {words}")
    given = len(product.values)
    return {(-1, k): code.filled(buffer, "i32") for k, buffer in enumerate(buffers[given:])}


def _frame(code: IRBuilder, product: Product) -> tuple[str, list[str]]:
    """The argument block of a product, filled once, and the buffers of its registers."""
    found = code.frames.get(product.name)
    if found is None:
        count = len(product.values) + product.results
        buffers = [code.slot(f"[{LANES} x i32]") for _ in range(count)]
        words = code.slot(f"[{3 + 4 * count} x i64]")
        for at, word in enumerate((1, 1, 0)):
            _put(code, words, at, str(word))
        for number, buffer in enumerate(buffers):
            address = f"%{code.fresh()}"
            code.entry.append(f"  {address} = ptrtoint ptr {buffer} to i64")
            for at, text in enumerate((address, "0", "4", "0")):
                _put(code, words, 3 + 4 * number + at, text)
        found = code.frames[product.name] = words, buffers
    return found


def _put(code: IRBuilder, words: str, at: int, text: str) -> None:
    place = f"%{code.fresh()}"
    code.entry.append(f"  {place} = getelementptr i64, ptr {words}, i64 {at}")
    code.entry.append(f"  store i64 {text}, ptr {place}")


ALL = (1 << 32) - 1


class Steps:
    """Emits instructions; ``current`` holds registers inside a block, and ``get`` reads one where it begins."""

    def __init__(
        self, builder: RegionBuilder, inputs: Inputs, access: Accesses, get: Callable[[Key], Val], *, converged: bool
    ) -> None:
        self.builder, self.code = builder, builder.code
        self.inputs, self.access, self.converged = inputs, access, converged
        self._get = get
        self.current: dict[Key, Val] = {}

    def speculate(self, good: str) -> None:
        """Guard a speculation: roll back where it does not hold."""
        self.builder.fail_unless(good, WRAPPED)

    def value(self, key: Key) -> Val:
        """The current value of a register."""
        found = self.current.get(key)
        if found is None:
            found = self.inputs.fixed.get(key)
            if found is None:
                found = self.current[key] = self._get(key)
        return found

    def condition(self, guard: tuple[int, bool]) -> Val:
        """The value of a guard."""
        code, value = self.code, self.value(guard[0])
        if not guard[1]:
            return value
        if value.lanes is not None:
            return code.lanes(code.make(f"xor i32 {value.lanes}, -1"))
        return code.op("xor", value, code.number(1, "i1"))

    def among(self, condition: Val, here: Val) -> Val:
        """The mask of lanes ``here`` where a condition holds."""
        code = self.code
        if condition.uniform:
            return code.select(condition, here, code.number(0, "i32"))
        raw = condition.lanes or code.make(f"bitcast {code.of(condition)} to i32")
        return scalar("i32", code.make(f"and i32 {raw}, {here.text}"))

    def step(self, block: int, at: int, instruction: Instruction, here: Val) -> list[int]:
        """Emit an instruction under the mask ``here``; the registers that it writes."""
        code, builder = self.code, self.builder
        made = builder.traced(instruction)
        if made.collective and made.product is None:
            reads = {r for r in made.inputs if isinstance(r, int)}
            sure = {r: v.known for r in reads if (v := self.value(r)).known is not None}
            if sure:
                made = builder.traces.of(instruction, sure) or made
        inputs = [self.value(k) for k in made.inputs]
        results: dict[tuple[int, int], Val] = {}
        lower = Lowering(code, inputs, lambda node: results[node.value])
        if made.stop is not None:
            builder.fail_unless(code.make(f"icmp eq i32 {self.among(lower(made.stop), here).text}, 0"), STOPPED)
        guard = None if made.guard is None else self.condition(made.guard)
        if made.collective:
            self._gate(made, lower, here)
        results |= call(code, made.product, lower)
        mask = here
        if guard is not None and (made.effects or builder.variant.counted):
            mask = self.among(guard, here)
            builder.counters.guarded(block, at, here.text, mask.text)
        for number, effect in enumerate(made.effects):
            given = [lower(v) for v in effect.values]
            found = self.access.make((block, at, number), effect, lower, mask, given, together=self.converged)
            for k, value in enumerate(found):
                results[number, k] = value
        values = [(slot, lower(node)) for slot, node in made.outputs]
        for slot, value in values:
            if guard is not None:
                value = code.select(guard, value, self.value(slot))
            self.current[slot] = value
        return [slot for slot, _ in values]

    def _gate(self, made: Traced, lower: Lowering, here: Val) -> None:
        """Guard a collective: all 32 lanes are here, and named by its mask."""
        code, builder = self.code, self.builder
        builder.fail_unless(code.make(f"icmp eq i32 {here.text}, -1"), DIVERGED)
        if made.members is None:
            return
        members = code.flat(lower(made.members))
        if members.known is not None and members.known & ALL == ALL:
            return
        named = code.op("icmp eq", members, code.number(-1, members.type), type="i1")
        good = named.text
        if not named.uniform:
            good = code.make(f"icmp eq i32 {code.make(f'bitcast {code.of(named)} to i32')}, -1")
        builder.fail_unless(good, DIVERGED)
