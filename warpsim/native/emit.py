"""The text of a unit: for each warp its blocks, always the lowest first, each by the lanes that wait before it.

That is the interpreter's order of blocks, seen from one warp. Registers are kept in slots on the stack, from which LLVM
makes values; inside a block they are values already.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.machine.state.global_memory import SHARED_WINDOW, WINDOW
from warpsim.native.forms import Effect, Key, Traced
from warpsim.native.helpers import CONTEXT, LOG_FULL, PARTED
from warpsim.native.lower import Code, Lowering, Val, memory, width
from warpsim.native.units import Kinds, Known, Piece, Shape, reachable
from warpsim.types import TYPES

ALL = (1 << 32) - 1


def key_type(shape: Shape, key: Key) -> str:
    """The LLVM type of what a key holds."""
    if isinstance(key, int):
        type = shape.plan.function.registers[key].type
    elif isinstance(key[0], int):
        type = TYPES[key[1]]
    elif key[0] == "param":
        type = TYPES[key[2]]
    elif key[0] == "frame":
        return f"i{np.dtype(key[2]).itemsize * 8}"
    else:
        return "i64"
    return "i1" if type.dtype.kind == "b" else f"i{type.dtype.itemsize * 8}"


class Emitter:
    """Writes one unit. ``lives`` and ``outs`` are the order of descriptors in the context."""

    def __init__(self, known: Known, shape: Shape, kinds: Kinds, alone: bool) -> None:
        self.known, self.shape, self.kinds, self.alone = known, shape, kinds, alone
        self.plan = shape.plan
        self.code = Code()
        self.exits = {place: number for number, place in enumerate(shape.exits)}
        self.tracked = not alone and shape.stores
        self.n_effects = 0
        self.ordered: list[Effect] = []
        self.once: list[bool] = []
        self.slots: dict[Key, tuple[str, str, bool]] = {}
        self.uses_words = {"shared": False, "local": False}

    # ---- registers --------------------------------------------------------------------------------

    def place(self, key: Key) -> tuple[str, str, bool]:
        """The slot of a register: pointer, type, whether it is a scalar."""
        found = self.slots.get(key)
        if found is None:
            type = key_type(self.shape, key)
            uniform = key not in self.kinds.varying
            found = self.slots[key] = (self.code.slot(self.code.typed(type, uniform)), type, uniform)
        return found

    def get(self, key: Key) -> Val:
        """What a register holds where a block begins."""
        pointer, type, uniform = self.place(key)
        return Val(type, self.code.make(f"load {self.code.typed(type, uniform)}, ptr {pointer}"), uniform)

    def put(self, key: Key, value: Val, mask: Val | None) -> None:
        """A register's new value, in the lanes of a mask."""
        pointer, _, uniform = self.place(key)
        if not uniform:
            value = self.code.splat(value)
        if mask is not None:
            value = self.code.select(mask, value, self.get(key))
        self.code.line(f"store {self.code.of(value)}, ptr {pointer}")

    # ---- the function -----------------------------------------------------------------------------

    def text(self, name: str) -> str:
        """The module."""
        code = self.code
        self._prologue()
        for number, piece in enumerate(self._chunks()):
            self._chunk(piece, number)
        self._stop()
        head = [f"define i32 @{name}(ptr %ctx) {{", "entry:", *code.entry]
        tail = ["}", ""]
        declared = [code.declared[n] for n in sorted(code.declared)]
        return "\n".join([*declared, *head, *self.start, *code.lines, *tail])

    def _word(self, name: str, type: str = "i64") -> str:
        pointer = self.code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT[name]}")
        return self.code.make(f"load {type}, ptr {pointer}")

    def _element(self, array: str, index: str, type: str = "i32") -> str:
        return self.code.make(f"load {type}, ptr {self.code.make(f'getelementptr {type}, ptr {array}, i64 {index}')}")

    def _chunks(self) -> list[Any]:
        """Pieces and the places outside where lanes leave, in the order of blocks; the first piece first."""
        shape = self.shape
        inside: list[Any] = [shape.pieces[b] for b in sorted(shape.pieces)]
        outside = [b for b, at in shape.exits if at == 0 and b not in shape.pieces]
        merged = sorted([*inside, *outside], key=lambda c: c.block if isinstance(c, Piece) else c)
        return merged if shape.entry in inside else [shape.entry, *merged]

    def _prologue(self) -> None:
        code, shape = self.code, self.shape
        words = ("n_warps", "laps", "limit", "log_size")
        self.word = {w: self._word(w) for w in words}
        pointers = (
            "rows",
            "ctas",
            "masks",
            "columns",
            "threads",
            "lives",
            "outs",
            "counts",
            "exits",
            "exit_lanes",
            "ranges",
        )
        self.word |= {w: self._word(w, "ptr") for w in pointers}
        tables = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['tables']}")
        code.line(f"%tables = load ptr, ptr {tables}")
        self.log_used = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['log_used']}")
        self.pending = {b: code.slot("i32") for b in {*shape.pieces, *(b for b, at in shape.exits if at == 0)}}
        self.counted = {b: (code.slot("i64"), code.slot("i64")) for b in shape.pieces}
        self.stop_id, self.stop_mask, self.lap = code.slot("i32"), code.slot("i32"), code.slot("i64")
        self.longest, self.k = code.slot("i64"), code.slot("i64")
        self.columns = code.slot("[32 x i64]")
        self.positions = code.slot("[32 x i64]")
        for a, b in self.counted.values():
            code.line(f"store i64 0, ptr {a}")
            code.line(f"store i64 0, ptr {b}")
        code.line(f"store i64 0, ptr {self.longest}")
        code.line(f"store i64 0, ptr {self.k}")
        uniform = {}
        for number, key in enumerate(shape.reads):
            if key not in self.kinds.varying:
                uniform[key] = self._scalar(number, key_type(shape, key))
        code.line("br label %warp")
        code.label("warp")
        k = self.now = code.make(f"load i64, ptr {self.k}")
        done = code.make(f"icmp eq i64 {k}, {self.word['n_warps']}")
        code.line(f"br i1 {done}, label %finish, label %begin")
        code.label("begin")
        self.row, self.cta = self._element(self.word["rows"], k), self._element(self.word["ctas"], k)
        row64 = code.make(f"sext i32 {self.row} to i64")
        self.mask = self._element(self.word["masks"], row64)
        cta64 = code.make(f"sext i32 {self.cta} to i64")
        column = code.make(f"sext i32 {self._element(self.word['columns'], cta64)} to i64")
        self.whole = Val("i1", code.make(f"bitcast i32 {self.mask} to <32 x i1>"), False)
        if any(e.space in ("shared", "generic") for e in self._effects()):
            code.line(f"store {code.of(code.splat(Val('i64', column, True)))}, ptr {self.columns}, align 64")
        if any(e.space == "local" for e in self._effects()):
            first = code.make(f"shl i64 {row64}, 5")
            threads = code.make(f"getelementptr i32, ptr {self.word['threads']}, i64 {first}")
            narrow = Val("i32", code.make(f"load <32 x i32>, ptr {threads}, align 4"), False)
            wide = code.convert("zext", narrow, "i64")
            total = Val("i64", self._word("shared_columns"), True)
            position = code.op("add", code.op("mul", wide, total), Val("i64", column, True))
            code.line(f"store {code.of(position)}, ptr {self.positions}, align 64")
        for number, key in enumerate(shape.reads):
            if key in uniform:
                self.put(key, uniform[key], None)
            else:
                self.put(key, self._vector(number, key_type(shape, key)), None)
        for slot in shape.outs:
            if slot not in shape.reads:
                pointer, type, scalar = self.place(slot)
                code.line(f"store {code.typed(type, scalar)} zeroinitializer, ptr {pointer}")
        for block in self.pending:
            code.line(f"store i32 0, ptr {self.pending[block]}")
        code.line(f"store i64 0, ptr {self.lap}")
        self.start: list[str] = []

    def _effects(self) -> list[Effect]:
        return [e for p in self.shape.all() for i in self._instructions(p) for e in self._traced(i).effects]

    def _instructions(self, piece: Piece) -> Any:
        return self.plan.blocks[piece.block].instructions[piece.first : piece.last]

    def _traced(self, instruction: Any) -> Traced:
        made = self.known.of(instruction)
        assert made is not None
        return made

    def _descriptor(self, array: str, number: int) -> str:
        return self.code.make(f"getelementptr i64, ptr {self.word[array]}, i64 {number * 6}")

    def _scalar(self, number: int, type: str) -> Val:
        raw = Val("i64", self.code.make(f"load i64, ptr {self._descriptor('lives', number)}"), True)
        return raw if type == "i64" else self.code.convert("trunc", raw, type)

    def _vector(self, number: int, type: str) -> Val:
        code, n = self.code, width(memory(type))
        out = code.slot(f"[32 x i{n}]")
        name = code.declare(f"ws_live_{n}", "void", "ptr, ptr, i32, i32, ptr")
        code.line(
            f"call void @{name}(ptr %ctx, ptr {self._descriptor('lives', number)}, i32 {self.row}, i32 {self.cta}, ptr {out})"
        )
        return code.filled(out, type)

    # ---- blocks -----------------------------------------------------------------------------------

    def _name(self, chunk: Any) -> str:
        return f"chunk{chunk.block}" if isinstance(chunk, Piece) else f"chunk{chunk}"

    def _chunk(self, chunk: Any, number: int) -> None:
        code, shape = self.code, self.shape
        chunks = self._chunks()
        after = self._name(chunks[number + 1]) if number + 1 < len(chunks) else "none"
        first = chunk is shape.entry
        if number == 0:
            if shape.pieces.get(shape.entry.block) is shape.entry:
                self._go(shape.entry.block, Val("i32", self.mask, True))
                code.line(f"br label %{self._name(shape.entry)}")
            else:
                code.line("br label %first")
        if first and shape.pieces.get(chunk.block) is not chunk:
            code.label("first")
            self._body(chunk, Val("i32", self.mask, True), None, after)
            return
        block = chunk.block if isinstance(chunk, Piece) else chunk
        code.label(self._name(chunk))
        here = Val("i32", code.make(f"load i32, ptr {self.pending[block]}"), True)
        some = code.make(f"icmp ne i32 {here.text}, 0")
        code.line(f"br i1 {some}, label %enter{block}, label %{after}")
        code.label(f"enter{block}")
        if not isinstance(chunk, Piece):
            self._leave(self.exits[block, 0], here)
            return
        beyond = code.make(f"icmp sge i64 {block}, {self.word['limit']}")
        code.line(f"br i1 {beyond}, label %beyond{block}, label %run{block}")
        code.label(f"beyond{block}")
        self._leave(self.exits[block, 0], here)
        code.label(f"run{block}")
        code.line(f"store i32 0, ptr {self.pending[block]}")
        divergent = block in self.kinds.divergent
        lanes = Val("i1", code.make(f"bitcast i32 {here.text} to <32 x i1>"), False) if divergent else None
        warps, threads = self.counted[block]
        self._add(warps, "1")
        count = code.make(f"call i32 @{code.declare('llvm.ctpop.i32', 'i32', 'i32')}(i32 {here.text})")
        self._add(threads, code.make(f"zext i32 {count} to i64"))
        self._body(chunk, here, lanes, after)

    def _add(self, pointer: str, more: str) -> None:
        old = self.code.make(f"load i64, ptr {pointer}")
        self.code.line(f"store i64 {self.code.make(f'add i64 {old}, {more}')}, ptr {pointer}")

    def _go(self, block: int, lanes: Val) -> None:
        pointer = self.pending[block]
        old = self.code.make(f"load i32, ptr {pointer}")
        self.code.line(f"store i32 {self.code.make(f'or i32 {old}, {lanes.text}')}, ptr {pointer}")

    def _leave(self, exit: int, lanes: Val) -> None:
        code = self.code
        code.line(f"store i32 {exit}, ptr {self.stop_id}")
        code.line(f"store i32 {lanes.text}, ptr {self.stop_mask}")
        code.line("br label %stop")

    def _body(self, piece: Piece, here: Val, lanes: Val | None, after: str) -> None:
        """The steps of a piece for the lanes ``here``; ``lanes`` is the same as a vector where they may be few."""
        code = self.code
        self.current: dict[Key, Val] = {}
        self.single = not piece.ends or piece.block not in reachable(self.shape, piece.successors)
        dirty: dict[int, None] = {}
        for at, instruction in enumerate(self._instructions(piece), piece.first):
            for slot in self._instruction(instruction, here):
                dirty[slot] = None
            del at
        guard = None
        if piece.ends and piece.guard is not None:
            guard = self._value(piece.guard[0])
            if piece.guard[1]:
                guard = code.op("xor", guard, code.number(1, "i1"))
        for slot in dirty:
            if slot in self.shape.crossing:
                self.put(slot, self.current[slot], lanes)
        if not piece.ends:
            self._leave(self.exits[piece.block, piece.last], here)
            return
        if piece.goes_back:
            self._lap(piece, here)
        if guard is None:
            target = piece.target if piece.target is not None else piece.following
            assert target is not None
            self._go(target, here)
            code.line(f"br label %{f'chunk{target}' if target <= piece.block else after}")
            return
        assert piece.target is not None
        assert piece.following is not None
        if guard.uniform:
            taken = code.select(guard, here, code.number(0, "i32"))
        else:
            taken = Val("i32", code.make(f"and i32 {code.make(f'bitcast {code.of(guard)} to i32')}, {here.text}"), True)
        rest = code.op("xor", taken, here)
        self._go(piece.target, taken)
        self._go(piece.following, rest)
        for where, who in ((piece.target, taken), (piece.following, rest)):
            if where <= piece.block:
                some, skip = code.make(f"icmp ne i32 {who.text}, 0"), code.fresh("on")
                code.line(f"br i1 {some}, label %chunk{where}, label %{skip}")
                code.label(skip)
        code.line(f"br label %{after}")

    def _lap(self, piece: Piece, here: Val) -> None:
        """One more time round a loop: leave before the branch where the interpreter wants to look."""
        code = self.code
        laps = code.make(f"load i64, ptr {self.lap}")
        more = code.make(f"add i64 {laps}, 1")
        code.line(f"store i64 {more}, ptr {self.lap}")
        over = code.make(f"icmp sgt i64 {more}, {self.word['laps']}")
        if self.shape.stores:
            used = code.make(f"load i64, ptr {self.log_used}")
            half = code.make(f"lshr i64 {self.word['log_size']}, 1")
            over = code.make(f"or i1 {over}, {code.make(f'icmp ugt i64 {used}, {half}')}")
        out, on = code.fresh("lapped"), code.fresh("on")
        code.line(f"br i1 {over}, label %{out}, label %{on}")
        code.label(out)
        code.line(f"store i64 {laps}, ptr {self.lap}")
        self._leave(self.exits[piece.block, piece.last], here)
        code.label(on)

    # ---- instructions -----------------------------------------------------------------------------

    def _value(self, key: Key) -> Val:
        found = self.current.get(key)
        if found is None:
            found = self.current[key] = self.get(key)
        return found

    def _instruction(self, instruction: Any, here: Val) -> list[int]:
        code = self.code
        made = self._traced(instruction)
        if made.collective:
            reads = {r for r in made.inputs if isinstance(r, int)}
            sure = {r: v.known for r in reads if (v := self._value(r)).known is not None}
            if sure:
                made = self.known.of(instruction, sure) or made
        inputs = [self._value(k) for k in made.inputs]
        results: dict[tuple[int, int], Val] = {}
        lower = Lowering(code, inputs, lambda node: results[node.value])
        guard = None
        if made.guard is not None:
            guard = self._value(made.guard[0])
            if made.guard[1]:
                guard = code.op("xor", guard, code.number(1, "i1"))
        if made.collective:
            self._gate(made, lower, here)
        mask = here
        if guard is not None and made.effects:
            if guard.uniform:
                mask = code.select(guard, here, code.number(0, "i32"))
            else:
                mask = Val(
                    "i32", code.make(f"and i32 {code.make(f'bitcast {code.of(guard)} to i32')}, {here.text}"), True
                )
        for number, effect in enumerate(made.effects):
            self._effect(number, effect, lower, mask, results)
        values = [(slot, lower(node)) for slot, node in made.outputs]
        for slot, value in values:
            if guard is not None:
                value = code.select(guard, value, self._value(slot))
            self.current[slot] = value
        return [slot for slot, _ in values]

    def _fail_unless(self, good: str, why: int) -> None:
        code = self.code
        on, bad = code.fresh("on"), code.fresh("bad")
        code.line(f"br i1 {good}, label %{on}, label %{bad}")
        code.label(bad)
        code.line(f"ret i32 {why}")
        code.label(on)

    def _gate(self, made: Traced, lower: Lowering, here: Val) -> None:
        """A collective runs here for whole warps of which all lanes are named."""
        code = self.code
        self._fail_unless(code.make(f"icmp eq i32 {here.text}, -1"), PARTED)
        if made.members is None:
            return
        members = lower(made.members)
        if members.known is not None and members.known & ALL == ALL:
            return
        named = code.op("icmp eq", members, code.number(-1, members.type), type="i1")
        good = named.text
        if not named.uniform:
            good = code.make(f"icmp eq i32 {code.make(f'bitcast {code.of(named)} to i32')}, -1")
        self._fail_unless(good, PARTED)

    def _range(self) -> str:
        """Where the extent of an access is noted."""
        if not self.tracked:
            return "null"
        code, number = self.code, self.n_effects
        first = code.make(f"mul i64 {self.now}, %n_effects")
        place = code.make(f"add i64 {first}, {number * 2}")
        return code.make(f"getelementptr i64, ptr {self.word['ranges']}, i64 {place}")

    def _effect(
        self, number: int, effect: Effect, lower: Lowering, mask: Val, results: dict[tuple[int, int], Val]
    ) -> None:
        code, size = self.code, effect.type.bytes
        address = lower(effect.address)
        values = [lower(v) for v in effect.values]
        one = effect.kind == "load" and address.uniform and effect.space == "global"
        where = code.slot("[32 x i64]")
        if one:
            code.line(f"store i64 {address.text}, ptr {where}, align 64")
        else:
            code.line(f"store {code.of(code.splat(address))}, ptr {where}, align 64")
        lanes = mask.text
        if one:
            some = code.make(f"icmp ne i32 {mask.text}, 0")
            lanes = code.make(f"zext i1 {some} to i32")
        range = self._range()
        self.n_effects += 1
        self.ordered.append(effect)
        self.once.append(self.single)
        type = self._memory_type(effect)
        if effect.kind == "atomic":
            results[number, 0] = self._atomic(effect, where, lanes, values, range)
            return
        buffer = code.slot(f"[{effect.count * 32} x i{size * 8}]")
        if effect.kind == "store":
            for k, value in enumerate(values):
                place = code.make(f"getelementptr i{size * 8}, ptr {buffer}, i64 {k * 32}")
                if value.type == "i1":
                    value = code.convert("zext", value, "i8")
                code.line(f"store {code.of(code.splat(value))}, ptr {place}, align 64")
        elif not one:
            for k in _range_of(effect.count):
                place = code.make(f"getelementptr i{size * 8}, ptr {buffer}, i64 {k * 32}")
                code.line(f"store <32 x i{size * 8}> zeroinitializer, ptr {place}, align 64")
        else:
            for k in _range_of(effect.count):
                place = code.make(f"getelementptr i{size * 8}, ptr {buffer}, i64 {k * 32}")
                code.line(f"store i{size * 8} 0, ptr {place}, align 64")
        self._access(effect, where, lanes, buffer, range)
        if effect.kind == "load":
            for k in _range_of(effect.count):
                place = code.make(f"getelementptr i{size * 8}, ptr {buffer}, i64 {k * 32}")
                if one:
                    value = Val(f"i{size * 8}", code.make(f"load i{size * 8}, ptr {place}"), True)
                else:
                    value = code.filled(place, f"i{size * 8}")
                results[number, k] = code.convert("bitcast", value, type) if type[0] != "i" else value

    def _memory_type(self, effect: Effect) -> str:
        from warpsim.native.lower import element

        return element(effect.type.dtype)

    def _access(self, effect: Effect, where: str, lanes: str, buffer: str, range: str) -> None:
        space = effect.space
        what = f"{effect.type.bytes}_{effect.count}"
        if space == "generic":
            self._generic(effect.kind, what, where, lanes, buffer, range)
            return
        status = self._call(effect.kind, space, what, where, lanes, buffer, range)
        self._check(status)

    def _call(self, kind: str, space: str, what: str, where: str, lanes: str, buffer: str, range: str) -> str:
        code = self.code
        if space == "global":
            name = code.declare(f"ws_{kind}_{what}", "i32", "ptr, ptr, i32, ptr, ptr")
            return code.make(f"call i32 @{name}(ptr %ctx, ptr {where}, i32 {lanes}, ptr {buffer}, ptr {range})")
        place = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT[space + '_words']}")
        columns = self.columns if space == "shared" else self.positions
        name = code.declare(f"ws_{kind}_words_{what}", "i32", "ptr, ptr, ptr, i32, ptr, ptr, ptr")
        return code.make(
            f"call i32 @{name}(ptr %ctx, ptr {place}, ptr {where}, i32 {lanes}, ptr {columns}, ptr {buffer}, ptr {range})"
        )

    def _check(self, status: str) -> None:
        code = self.code
        on, bad = code.fresh("on"), code.fresh("bad")
        code.line(f"br i1 {code.make(f'icmp eq i32 {status}, 0')}, label %{on}, label %{bad}")
        code.label(bad)
        code.line(f"ret i32 {status}")
        code.label(on)

    def _generic(self, kind: str, what: str, where: str, lanes: str, buffer: str, range: str) -> None:
        """Global or shared memory, as the first lane's address says; the helpers fail where lanes differ."""
        code = self.code
        name = code.declare("llvm.cttz.i32", "i32", "i32, i1")
        lane = code.make(f"and i32 {code.make(f'call i32 @{name}(i32 {lanes}, i1 false)')}, 31")
        first = self._element(where, code.make(f"zext i32 {lane} to i64"), "i64")
        shifted = code.make(f"sub i64 {first}, {SHARED_WINDOW}")
        inside = code.make(f"icmp ult i64 {shifted}, {WINDOW}")
        words, plain, done = code.fresh("words"), code.fresh("plain"), code.fresh("done")
        result = code.slot("i32")
        code.line(f"br i1 {inside}, label %{words}, label %{plain}")
        code.label(words)
        all = Val("i64", code.make(f"load <32 x i64>, ptr {where}, align 64"), False)
        moved = code.op("sub", all, code.number(SHARED_WINDOW, "i64"))
        code.line(f"store {code.of(moved)}, ptr {where}, align 64")
        code.line(f"store i32 {self._call(kind, 'shared', what, where, lanes, buffer, range)}, ptr {result}")
        code.line(f"br label %{done}")
        code.label(plain)
        code.line(f"store i32 {self._call(kind, 'global', what, where, lanes, buffer, range)}, ptr {result}")
        code.line(f"br label %{done}")
        code.label(done)
        self._check(code.make(f"load i32, ptr {result}"))

    def _atomic(self, effect: Effect, where: str, lanes: str, values: list[Val], range: str) -> Val:
        """Lane by lane, in their order."""
        code, size = self.code, effect.type.bytes
        type = self._memory_type(effect)
        cells = code.slot("[32 x i64]")
        if effect.space == "global":
            name = code.declare(f"ws_cells_{size}", "i32", "ptr, ptr, i32, ptr, ptr")
            status = code.make(f"call i32 @{name}(ptr %ctx, ptr {where}, i32 {lanes}, ptr {cells}, ptr {range})")
        else:
            place = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['shared_words']}")
            name = code.declare(f"ws_word_cells_{size}", "i32", "ptr, ptr, ptr, i32, ptr, ptr, ptr")
            status = code.make(
                f"call i32 @{name}(ptr %ctx, ptr {place}, ptr {where}, i32 {lanes}, ptr {self.columns}, ptr {cells}, ptr {range})"
            )
        self._check(status)
        given = [code.spill(v) for v in values]
        olds = code.slot(f"[32 x {type}]")
        code.line(f"store <32 x {type}> zeroinitializer, ptr {olds}, align 64")
        index = code.slot("i64")
        loop, lane, step, end = (code.fresh(x) for x in ("loop", "lane", "step", "end"))
        code.line(f"store i64 0, ptr {index}")
        code.line(f"br label %{loop}")
        code.label(loop)
        i = code.make(f"load i64, ptr {index}")
        bit = code.make(f"lshr i32 {lanes}, {code.make(f'trunc i64 {i} to i32')}")
        code.line(f"br i1 {code.make(f'trunc i32 {bit} to i1')}, label %{lane}, label %{step}")
        code.label(lane)
        cell = code.make(f"inttoptr i64 {self._element(cells, i, 'i64')} to ptr")
        old = Val(type, code.make(f"load {type}, ptr {cell}"), True)
        given_values = [Val(v.type, self._element(p, i, v.type), True) for v, p in zip(values, given, strict=True)]
        assert effect.update is not None
        new = Lowering(code, [old, *given_values])(effect.update)
        code.line(f"store {code.of(new)}, ptr {cell}")
        code.line(f"store {code.of(old)}, ptr {code.make(f'getelementptr {type}, ptr {olds}, i64 {i}')}")
        code.line(f"br label %{step}")
        code.label(step)
        after = code.make(f"add i64 {i}, 1")
        code.line(f"store i64 {after}, ptr {index}")
        code.line(f"br i1 {code.make(f'icmp eq i64 {after}, 32')}, label %{end}, label %{loop}")
        code.label(end)
        return code.filled(olds, type)

    # ---- where warps leave ------------------------------------------------------------------------

    def _stop(self) -> None:
        code, shape = self.code, self.shape
        code.label("none")  # no lane is anywhere: never reached
        code.line(f"ret i32 {LOG_FULL}")
        code.label("stop")
        stopped = code.make(f"load i32, ptr {self.stop_mask}")
        exit = code.make(f"load i32, ptr {self.stop_id}")
        place = code.make(f"getelementptr i32, ptr {self.word['exits']}, i64 {self.now}")
        code.line(f"br i1 {code.make(f'icmp eq i32 {stopped}, {self.mask}')}, label %together, label %apart")
        code.label("apart")
        code.line(f"store i32 -1, ptr {place}")
        rows = code.make(f"mul i64 {self.now}, 32")
        lanes = code.make(f"getelementptr i32, ptr {self.word['exit_lanes']}, i64 {rows}")
        all = Val("i32", f"{exit}", True)
        value = code.splat(all)
        for block, pointer in self.pending.items():
            waiting = code.make(f"load i32, ptr {pointer}")
            mine = code.make(f"and i32 {waiting}, {code.make(f'xor i32 {stopped}, -1')}")
            flags = Val("i1", code.make(f"bitcast i32 {mine} to <32 x i1>"), False)
            value = code.select(flags, code.number(self.exits[block, 0], "i32"), value)
        code.line(f"store {code.of(value)}, ptr {lanes}, align 4")
        code.line("br label %write")
        code.label("together")
        code.line(f"store i32 {exit}, ptr {place}")
        code.line("br label %write")
        code.label("write")
        for number, slot in enumerate(shape.outs):
            self._out(number, slot)
        laps, longest = code.make(f"load i64, ptr {self.lap}"), code.make(f"load i64, ptr {self.longest}")
        more = code.make(f"icmp sgt i64 {laps}, {longest}")
        code.line(f"store i64 {code.make(f'select i1 {more}, i64 {laps}, i64 {longest}')}, ptr {self.longest}")
        code.line(f"store i64 {code.make(f'add i64 {self.now}, 1')}, ptr {self.k}")
        code.line("br label %warp")
        code.label("finish")
        for number, (block, _) in enumerate(sorted(shape.pieces.items())):
            for k, pointer in enumerate(self.counted[block]):
                count = code.make(f"load i64, ptr {pointer}")
                place = code.make(f"getelementptr i64, ptr {self.word['counts']}, i64 {2 * number + k}")
                code.line(f"store i64 {count}, ptr {place}")
        for number, slot in enumerate(shape.outs):
            if slot not in self.kinds.varying:
                value = self.get(slot)
                wide = value if value.type == "i64" else code.convert("zext", value, "i64")
                code.line(f"store i64 {wide.text}, ptr {self._descriptor('outs', number)}")
        longest = code.make(f"load i64, ptr {self.longest}")
        place = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['longest']}")
        code.line(f"store i64 {longest}, ptr {place}")
        code.line("ret i32 0")
        self.start = [f"  %n_effects = add i64 0, {2 * self.n_effects}"]

    def _out(self, number: int, slot: int) -> None:
        if slot not in self.kinds.varying:
            return
        code = self.code
        value = self.get(slot)
        n = width(memory(value.type))
        place = code.spill(value)
        name = code.declare(f"ws_out_{n}", "void", "ptr, ptr, i32, i32, i32, ptr")
        code.line(
            f"call void @{name}(ptr %ctx, ptr {self._descriptor('outs', number)}, i32 {self.row}, i32 {self.cta}, i32 {self.mask}, ptr {place})"
        )


_range_of = range
