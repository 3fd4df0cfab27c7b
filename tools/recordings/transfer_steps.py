"""The steps of ``transfers.py``: random instructions that move memory and multiply matrices, as PTX.

A step finds the thread in ``t``, the CTA's rank in ``rank``, its input, output and shared memory at ``in``, ``out`` and ``sm``,
mbarriers at ``bar``, those of the next CTA of the cluster at ``peer`` and ``peerbar``; ``one`` is true in one thread.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np

import exchanges
import matrix_trials
import random_boxes
from boxes_ptx import bulk_reductions
from hopper_parts import tensor_map
from instruction_heads import REGISTERS
from matrix_kernels import vector
from matrix_operands import BITS
from warpgroup_trials import WIDTH, wgmma_types

THREADS, GLOBAL, SHARED, INPUT, META = 128, 8 << 10, 24 << 10, 16 << 10, 2 << 10
"""Threads of a CTA; bytes of its output, shared memory and input; of the input, what valid metadata fills."""
METADATA = {"pairs": 0, "any": 512, "ordered": 1024}
"""Where in the input lies valid metadata: for 32-bit elements, for others in any order, and increasing."""
SYNC = "fence.proxy.async; fence.acq_rel.gpu; barrier.cluster.arrive; barrier.cluster.wait;"
"""All that was done is seen by all."""
SHARED_REDUCTIONS = (
    *("add.u32", "add.s32", "add.u64", "inc.u32", "dec.u32", "and.b32", "or.b32", "xor.b32"),
    *("min.u32", "min.s32", "max.u32", "max.s32"),
)
MOST = (1 << 20) - 1
"""Arrivals and bytes that an mbarrier counts."""
STRONG = (".volatile", ".relaxed.gpu", ".acquire.sys", ".release.sys", ".weak")
"""Modifiers that stand before the space."""
LOADS = (
    *("", ".ca", ".cg", ".cs", ".lu", ".cv", ".nc", ".L1::evict_last", ".L2::64B", ".L1::no_allocate.L2::128B"),
    *(".nc.L1::no_allocate.L2::256B", ".volatile", ".relaxed.gpu", ".acquire.sys", ".weak"),
)
STORES = ("", ".wb", ".cg", ".cs", ".wt", ".volatile", ".relaxed.gpu", ".release.sys")


def registers(type: str) -> tuple[str, str]:
    """What the registers of an atomic's type are called, and those of the same size that memory knows."""
    name = exchanges.PREFIXES[type]
    return name, {"hf": "h", "x": "b"}.get(name, name)


def moved(name: str, raw: str, number: int, at: str, *, store: bool = False) -> str:
    """Code that loads or stores one of `registers`."""
    kind, register, word = REGISTERS[raw], f"{name}{number}", f"{raw}{number}"
    bits = int(kind[1:])
    if store:
        return (f" mov.b{bits} {word}, {register};" if name != raw else "") + f" st.global.{kind} [{at}], {word};"
    return f" ld.global.{kind} {word}, [{at}];" + (f" mov.b{bits} {register}, {word};" if name != raw else "")


def wide(kind: str) -> str:
    """The type of registers of a matrix."""
    return "f64" if kind == "f64" else "b32"


class Steps:
    """Draws the steps of a launch; ``room`` is what their results take."""

    def __init__(self, rng: random.Random, ctas: int) -> None:
        self.rng, self.ctas, self.room, self.number = rng, ctas, 0, 0
        self.types: list[str] = []
        """Types of numbers that matter to the steps."""
        self.maps: list[dict[str, object]] = []

    def maybe(self, text: str, chance: float = 0.5) -> str:
        """A modifier, or none."""
        return text if self.rng.random() < chance else ""

    def at(self, limit: int, size: int, unit: int = 16) -> int:
        """Where ``size`` bytes lie."""
        return self.rng.randrange(0, limit - size + 1, unit)

    def parts(self, size: int, unit: int = 16) -> tuple[int, int]:
        """Two places in shared memory that do not meet."""
        while True:
            a, b = self.at(SHARED, size, unit), self.at(SHARED, size, unit)
            if abs(a - b) >= size:
                return a, b

    def result(self, width: int) -> str:
        """Code that leaves in ``q`` where a thread's results go."""
        text = f"mad.wide.u32 q, t, {width}, out; add.u64 q, q, {GLOBAL + SHARED + self.room};"
        self.room += width * THREADS
        return text

    def waited(self, nbytes: int | str, issue: str) -> str:
        """An issue that completes so many bytes at this step's mbarrier."""
        k = self.number
        return (
            f"@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+{8 * k}], {nbytes}; {issue}"
            f" W{k}: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [bar+{8 * k}], 0; @!done bra W{k};"
        )

    def kinds(self) -> list[Callable[[], str]]:
        """Steps, some more often than others."""
        return [
            self.load, self.box, self.box, self.store, self.reduction, self.reduction, self.across, self.asynchronous, self.counted,
            self.access, self.access, self.atomic, self.atomic, self.vectors, self.rows, self.product, self.warpgroup, self.warpgroup,
            self.warpgroup, self.tile, self.barrier, self.hints,
        ]  # fmt: skip

    def hint(self) -> tuple[str, str, str]:
        """A cache policy: code that makes it, modifier and operand; or none."""
        if self.rng.random() < 0.8:
            return "", "", ""
        return "createpolicy.fractional.L2::evict_first.b64 policy, 1.0; ", ".L2::cache_hint", ", policy"

    # ---- copies ----

    def size(self) -> int:
        """Of a copy in bytes."""
        return 16 * self.rng.choice([0, 1, 2, self.rng.randint(1, 20), self.rng.randint(1, 200)])

    def load(self) -> str:
        """``cp.async.bulk`` to shared memory, one's own or another's, or of several."""
        n, (head, tail, more) = self.size(), self.hint()
        source = f"[in+{self.at(INPUT, n)}]"
        if self.ctas > 1 and self.rng.random() < 0.5:
            n = min(n, 3072)
            mask, at = self.rng.randrange(1, 1 << self.ctas), self.at(SHARED, n * self.ctas)
            head += f" shr.u32 y, {mask}, rank; and.b32 y, y, 1; mul.lo.u32 y, y, {n * self.ctas}; mad.lo.u32 w, rank, {n}, sm;"
            copy = f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster{tail}"
            return head + self.waited(
                "y", f"@one {copy} [w+{at}], {source}, {n}, [bar+{8 * self.number}], {mask}{more};"
            )
        space, to, bar = self.rng.choice([("cluster", "peer", "peerbar"), ("cta", "sm", "bar")])
        copy = f"cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes{tail}"
        return head + self.waited(
            n, f"@one {copy} [{to}+{self.at(SHARED, n)}], {source}, {n}, [{bar}+{8 * self.number}]{more};"
        )

    def pieces(self, issue: Callable[[int], str]) -> str:
        """Copies by the first few threads, each its own piece from ``w`` to ``q``."""
        count = self.rng.choice([1, 1, 2, 8])
        n = 16 * self.rng.randint(1, 64 // count)
        read = self.maybe(" cp.async.bulk.wait_group.read 0;")
        return (
            f"setp.lt.u32 few, t, {count}; mad.wide.u32 q, t, {n}, out; add.u64 q, q, {self.at(GLOBAL, n * count)};"
            f" mad.lo.u32 w, t, {n}, sm; add.u32 w, w, {self.at(SHARED, n * count)}; @!few bra S{self.number};"
            f" {issue(n)} cp.async.bulk.commit_group;{read} cp.async.bulk.wait_group 0; S{self.number}:"
        )

    def box(self) -> str:
        """``cp.async.bulk.tensor`` of a box of the input, to one's own shared memory or that of several."""
        while True:
            arguments, name, per, size, total, nbytes, room, whole = random_boxes.geometry(self.rng, load=True)
            shared = self.ctas if self.ctas > 1 and self.rng.random() < 0.6 else 1
            room += -room % 128
            if whole and total <= INPUT + SHARED and 0 < room * shared < SHARED:
                break
        dims, im2col = arguments["dims"], arguments["im2col"]
        fill = "nan_request_zero_fma" if name[0] in "fb" and self.rng.random() < 0.4 else "zero"
        self.maps.append(tensor_map("source", **arguments, fill=fill))
        row = random_boxes.places_of(self.rng, 1, dims, arguments["box"], im2col, per=per, size=size, load=True)
        row[0, 0] -= 0 if per else row[0, 0] % (16 // size)
        coordinates = [str(place) for place in row[0, : len(dims)]]
        text = f"mov.b64 q, map{len(self.maps) - 1}; cvta.param.u64 q, q; mov.u32 y, {nbytes}; mov.u32 w, sm;"
        if len(dims) > 1:
            text += f" mad.lo.u32 z, rank, {self.rng.randrange(-2, 3)}, {coordinates[-1]};"
            coordinates[-1] = "z"
        mode, offsets = ".tile", ""
        if im2col:
            mode, offsets = ".im2col", f", {vector('h', len(dims) - 2)}"
            text += "".join(f" mov.b16 h{n}, {row.view(np.uint16)[0, 10 + n]};" for n in range(len(dims) - 2))
        multicast = more = ""
        if shared > 1:
            chosen = self.rng.randrange(1, 1 << self.ctas)
            multicast, more = ".multicast::cluster", f", {chosen}"
            text += f" shr.u32 y, {chosen}, rank; and.b32 y, y, 1; mul.lo.u32 y, y, {nbytes * shared};"
            text += f" mad.lo.u32 w, rank, {room}, sm;"
        tensor = f"[q, {{{', '.join(coordinates)}}}]"
        if self.rng.random() < 0.2:
            text += f" @one cp.async.bulk.prefetch.tensor.{len(dims)}d.L2.global{mode} {tensor}{offsets};"
        head, tail, policy = self.hint()
        copy = f"cp.async.bulk.tensor.{len(dims)}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes{multicast}{tail}"
        operands = (
            f"[w+{self.at(SHARED, room * shared, 128)}], {tensor}, [bar+{8 * self.number}]{offsets}{more}{policy}"
        )
        return head + text + self.waited("y", f"@one {copy} {operands};")

    def store(self) -> str:
        """``cp.async.bulk`` to global memory."""
        head, tail, more = self.hint()
        return head + self.pieces(lambda n: f"cp.async.bulk.global.shared::cta.bulk_group{tail} [q], [w], {n}{more};")

    def reduction(self) -> str:
        """``cp.reduce.async.bulk`` to global memory."""
        operation, type = self.rng.choice(list(bulk_reductions()))
        self.types.append(type)
        head, tail, more = self.hint()
        opcode = f"cp.reduce.async.bulk.global.shared::cta.bulk_group{tail}.{operation}.{type}"
        return head + self.pieces(lambda n: f"{opcode} [q], [w], {n}{more};")

    def across(self) -> str:
        """``cp.async.bulk`` and ``cp.reduce.async.bulk`` between shared memories."""
        n = min(self.size(), 2048)
        a, b = self.parts(n)
        opcode, tail = "cp.async.bulk", ""
        if self.rng.random() < 0.6:
            opcode, tail = "cp.reduce.async.bulk", f".{self.rng.choice(SHARED_REDUCTIONS)}"
        copy = f"{opcode}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{tail}"
        return self.waited(n, f"@one {copy} [peer+{a}], [sm+{b}], {n}, [peerbar+{8 * self.number}];")

    def slots(self, base: str, size: int, target: str = "") -> str:
        """Code: where each thread has ``size`` bytes of its own, in some order: in ``q`` of ``in`` and ``out``, in ``w`` of shared memory."""
        limit = {"in": INPUT, "out": GLOBAL}.get(base, SHARED)
        width, bits, usual = ("lo", 32, "w") if limit == SHARED else ("wide", 64, "q")
        target = target or usual
        return (
            f" mad.lo.u32 y, t, {self.rng.randrange(1, 128, 2)}, {self.rng.randrange(128)}; and.b32 y, y, 127;"
            f" mad.{width}.u32 {target}, y, {size}, {base}; add.u{bits} {target}, {target}, {self.at(limit, 128 * size, size)};"
        )

    def asynchronous(self) -> str:
        """``cp.async``."""
        size = self.rng.choice([4, 8, 16])
        how = self.rng.choice(["ca", "cg"]) if size == 16 else "ca"
        head, tail, policy = self.hint()
        tail += self.maybe(f".L2::{self.rng.choice(['64B', '128B', '256B'])}", 0.3)
        slot = self.rng.choice([16, 32]) if size == 16 else 16
        text = self.slots("sm", slot) + self.slots("in", 16)
        text += f" mad.lo.u32 y, t, {self.rng.randrange(50)}, {self.rng.randrange(50)};"
        inner = self.rng.randrange(0, 16, size)
        more = self.rng.choice(["", "size", "few"])
        if more == "size":
            text, more = text + f" rem.u32 y, y, {size + 1};", ", y"
        elif more:
            text, more = text + f" and.b32 y, y, {self.rng.choice([1, 2, 3])}; setp.eq.u32 few, y, 0;", ", few"
        wait = self.rng.choice(["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;", ""])
        space = self.rng.choice(["shared", "shared::cta"])
        if not wait:
            noinc = self.maybe(".noinc")
            text = f"@one mbarrier.init.shared::cta.b64 [bar+64], {THREADS if noinc else 1}; bar.sync 0; {text}"
            last = "" if noinc else "bar.sync 0; @one mbarrier.arrive.shared::cta.b64 _, [bar+64];"
            wait = (
                f"cp.async.mbarrier.arrive{noinc}.{space}.b64 [bar+64]; {last}"
                f" V{self.number}: mbarrier.test_wait.parity.shared::cta.b64 done, [bar+64], 0; @!done bra V{self.number};"
                " bar.sync 0; @one mbarrier.inval.shared::cta.b64 [bar+64];"
            )
        operands = f"[w+{inner}], [q+{inner}], {size}{more}{policy}"
        return f"{head}{text} cp.async.{how}.{space}.global{tail} {operands}; {wait}"

    def counted(self) -> str:
        """``st.async`` and ``red.async`` to another CTA."""
        k, text = self.number, self.slots("in", 16)
        if self.rng.random() < 0.5:
            type = self.rng.choice(["b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"])
            size, prefix = int(type[1:]) // 8, exchanges.PREFIXES[type]
            count = self.rng.choice([c for c in (1, 2, 4) if c * size <= 16])
            registers = [f"{prefix}{n}" for n in range(count)]
            values = "".join(f" ld.global.{type} {r}, [q+{size * i}];" for i, r in enumerate(registers))
            shown = registers[0] if count == 1 else f"{{{', '.join(registers)}}}"
            wide = f".v{count}" if count > 1 else ""
            name = f"st.async{self.maybe('.weak')}.shared::cluster.mbarrier::complete_tx::bytes{wide}.{type}"
            size *= count
            text += values + self.slots("peer", size)
            return text + self.waited(size * THREADS, f"{name} [w], {shown}, [peerbar+{8 * k}];")
        operation = self.rng.choice([*SHARED_REDUCTIONS, "add.s64"])
        type = operation[-3:]
        prefix, size = exchanges.PREFIXES[type], int(type[1:]) // 8
        place = self.slots("peer", size)
        if self.rng.random() < 0.4 and operation[:3] not in ("inc", "dec"):
            place = f"add.u32 w, peer, {self.at(SHARED, size, size)};"
        name = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}"
        text += f" ld.global.{type} {prefix}0, [q]; {place}"
        return text + self.waited(size * THREADS, f"{name} [w], {prefix}0, [peerbar+{8 * k}];")

    # ---- loads, stores, atomics ----

    def access(self) -> str:
        """A load and a store of some width and cache operator, in any space."""
        type = self.rng.choice(list(exchanges.WIDTHS))
        size, prefix = int(type[1:]) // 8, self.rng.choice(exchanges.WIDTHS[type].split())
        count = self.rng.choice([c for c in (1, 2, 4) if c * size <= 16])
        names = [f"{prefix}{n}" for n in self.rng.sample(range(8), count)]
        shown, vec = (names[0], "") if count == 1 else (f"{{{', '.join(names)}}}", f".v{count}")
        head, tail, operand = self.hint()
        policy, inner = self.rng.choice(LOADS), self.at(16, size * count, size * count)
        if policy == ".volatile":  # which has no cache policy
            head = tail = operand = ""
        if self.rng.random() < 0.3:
            load = f"ld{self.maybe('.relaxed.cluster')}.shared::cluster{vec}.{type}"
            text = f"{self.slots('peer', 16)} {load} {shown}, [w+{inner}]; {SYNC}"
        else:
            load = f"ld{policy}.global" if policy in STRONG else f"ld.global{policy}"
            address = f"[q+{inner}]{operand or self.maybe('.unified', 0.1)}"
            text = f"{head}{self.slots('in', 16)} {load}{tail}{vec}.{type} {shown}, {address};"
        where = self.rng.choice(["global", "shared", "shared::cluster", "generic"])
        fitting = [t for t, prefixes in exchanges.WIDTHS.items() if prefix in prefixes.split()]
        stored = self.rng.choice([t for t in fitting if int(t[1:]) // 8 * count <= 16])
        size = int(stored[1:]) // 8 * count
        policy, space = self.rng.choice(STORES), {"global": ".global", "generic": ""}.get(where, f".{where}")
        store = f"st{policy}{space}" if policy in STRONG else f"st{space}{policy}"
        if where in ("global", "generic"):
            return f"{text} {self.slots('out', 16)} {store}{vec}.{stored} [q+{self.at(16, size, size)}], {shown};"
        place = self.slots("sm" if where == "shared" else "peer", 16)
        return f"{text} {place} {store}{vec}.{stored} [w+{self.at(16, size, size)}], {shown};"

    def order(self, read: bool) -> str:
        """How strong an atomic is, and for whom."""
        sem = self.rng.choice(["", ".relaxed", ".release", *([".acquire", ".acq_rel"] if read else [])])
        return sem + (self.rng.choice(["", ".cta", ".cluster", ".gpu", ".sys"]) if sem else "")

    def place(self, size: int) -> tuple[str, str, str]:
        """A cell of each thread in a space: code, space, address."""
        where = self.rng.choice(
            ["global", "shared", "shared::cta", "shared::cluster", "generic", "generic shared", "generic cluster"]
        )
        if where in ("global", "generic"):
            return self.slots("out", size), "" if where == "generic" else ".global", "[q]"
        text = self.slots("peer" if "cluster" in where else "sm", size)
        if "generic" in where:
            return (
                f"{text} cvt.u64.u32 q, w; cvta.{where.replace('generic ', '').replace('cluster', 'shared::cluster')}.u64 q, q;",
                "",
                "[q]",
            )
        return text, f".{where}", "[w]"

    def atomic(self) -> str:
        """``atom`` and ``red`` on a cell of each thread."""
        operation = self.rng.choice([*exchanges.ATOMICS, "exch.b128", "cas.b128"])
        type = operation.split(".")[-1]
        self.types.append(type.removesuffix("x2"))
        size = 4 if type.endswith("x2") else int(re.sub(r"\D", "", type)) // 8
        text, space, address = self.place(size)
        if type.endswith("x2") and "cluster" in f"{space} {text}" and self.ctas > 1:
            return self.hints()  # the assembler adds integers there
        text += self.slots("in", 16, "g")
        compares = operation.startswith("cas")
        if type == "b128":
            text += " ld.global.v2.b64 {q0, q1}, [g]; mov.b128 o2, {q0, q1}; mov.b128 o3, {q1, q0};"
            done = f"atom{self.order(True)}{space}.{operation} o1, {address}, o2{', o3' if compares else ''};"
            return f"{text} {done} mov.b128 {{q2, q3}}, o1; {self.result(16)} st.global.v2.b64 [q], {{q2, q3}};"
        name, raw = registers(type)
        text += moved(name, raw, 1, "g") + moved(name, raw, 2, "g+8")
        if compares and self.rng.random() < 0.7:  # half of the comparisons succeed
            text += f" and.b32 y, t, 1; setp.eq.u32 few, y, 0; ld{space}.{REGISTERS[raw]} {raw}3, {address};"
            text += f" @few mov.b{8 * size} {name}1, {raw}3;"
        if not compares and not operation.startswith("exch") and self.rng.random() < 0.4:
            return f"{text} red{self.order(False)}{space}.{operation} {address}, {name}1;"
        done = (
            f"atom{self.order(True)}{space}.{operation} {name}0, {address}, {name}1{f', {name}2' if compares else ''};"
        )
        return f"{text} {done} {self.result(16)}{moved(name, raw, 0, 'q', store=True)}"

    def vectors(self) -> str:
        """Vector atomics of global memory."""
        type = self.rng.choice(["f32", "f16", "bf16", "f16x2", "bf16x2"])
        self.types.append(type.removesuffix("x2"))
        size = 2 if type in ("f16", "bf16") else 4
        count = self.rng.choice([c for c in (2, 4, 8) if c * size <= 16])
        operation = "add" if type == "f32" else f"{self.rng.choice(['add', 'min', 'max'])}.noftz"
        name, raw = registers(type)
        text = self.slots("in", 16)
        text += "".join(moved(name, raw, n, f"q+{n * size}") for n in range(count)) + self.slots("out", size * count)
        tail = f".global.{operation}.v{count}.{type}"
        if self.rng.random() < 0.4:
            return f"{text} red{self.order(False)}{tail} [q], {vector(name, count)};"
        text += f" atom{self.order(True)}{tail} {vector(name, count)}, [q], {vector(name, count)}; {self.result(16)}"
        return text + "".join(moved(name, raw, n, f"q+{n * size}", store=True) for n in range(count))

    # ---- matrices ----

    def rows(self) -> str:
        """``ldmatrix`` of any rows, also the same or overlapping; ``stmatrix`` of rows of one's own."""
        count, turned = self.rng.choice([1, 2, 4]), self.maybe(".trans")
        space = self.rng.choice(["", ".shared", ".shared::cta"])
        address, generic = ("[w]", "") if space else ("[q]", " cvt.u64.u32 q, w; cvta.shared.u64 q, q;")
        tail = f"m8n8.x{count}{turned}{space}.b16"
        if self.rng.random() < 0.4:
            text = f"{self.slots('in', 16)} ld.global.v4.b32 {vector('b', 4)}, [q];"
            text += self.slots("sm", 16) + generic
            return f"{text} stmatrix.sync.aligned.{tail} {address}, {vector('b', count)};"
        a, b, c = self.rng.choice([1, 3, 5, 7, 37]), self.rng.randrange(999), self.rng.choice([0, 1, 2, 4])
        text = f"shr.u32 y, t, {c}; mad.lo.u32 y, y, {a}, {b}; mul.lo.u32 y, y, y; and.b32 y, y, 1023; mad.lo.u32 w, y, 16, sm;"
        text += f"{generic} ldmatrix.sync.aligned.{tail} {vector('b', count)}, {address}; {self.result(16)}"
        return text + "".join(f" st.global.b32 [q+{4 * n}], b{n};" for n in range(count))

    def operand(self, name: str, kind: str, count: int) -> str:
        """Code that loads registers of a matrix from the input."""
        size = 8 if kind == "f64" else 4
        at = META + self.at(INPUT - META, THREADS * size * count)
        text = f" mad.wide.u32 q, t, {size * count}, in; add.u64 q, q, {at};"
        return text + "".join(f" ld.global.{wide(kind)} {name}{n}, [q+{n * size}];" for n in range(count))

    def product(self) -> str:
        """One to three of ``mma`` or ``mma.sp`` on the same accumulators."""
        with np.load(matrix_trials.FORMS) as stored:
            names = stored["names"].tolist()
            number = self.rng.randrange(len(names))
            counts = {letter: int(stored[f"{number}_{letter}"].shape[2]) for letter in "abcd"}
        opcode, _, arguments = names[number].split(" #")[0].partition(" ")
        kinds = dict(zip("dabc", [word for word in opcode.split(".") if word in BITS], strict=False))
        d, a = kinds["d"], kinds["a"]
        self.types += [kinds[letter] for letter in "abc"]
        text = "{" + "".join(f" .reg .{wide(kind)} m{letter}<{counts[letter]}>;" for letter, kind in kinds.items())
        if ".sp" in opcode:
            valid = METADATA["pairs" if a == "tf32" else "ordered" if "ordered" in opcode else "any"]
            text += f" mad.wide.u32 q, t, 4, in; ld.global.b32 b0, [q+{valid}];"
            arguments = re.sub(r"\be(?=[,;])", "b0", arguments)
        chained = counts["c"] == counts["d"] and kinds["c"] == d
        for turn in range(self.rng.choice([1, 1, 2, 3]) if chained else 1):
            made = arguments
            for letter in "dabc" if turn == 0 else "dab":
                text += self.operand(f"m{letter}", kinds[letter], counts[letter]) if letter != "d" else ""
                made = re.sub(rf"\b{letter}(?=[,;])", vector(f"m{letter}", counts[letter]), made, count=1)
            text += f" {opcode} " + re.sub(r"\bc(?=[,;])", vector("md", counts["d"]), made)
        size = 8 if d == "f64" else 4
        text += self.result(size * counts["d"])
        return text + "".join(f" st.global.{wide(d)} [q+{n * size}], md{n};" for n in range(counts["d"])) + " }"

    def descriptor(self, extent: int, k: int, bits: int, turned: bool) -> int:
        """Any matrix within shared memory: any mode, start, strides and base offset."""
        while True:
            mode = self.rng.randrange(4)
            span = WIDTH[mode]
            near, far, wider = 16 * self.rng.randrange(64), 16 * self.rng.randrange(256), 128 * self.rng.randrange(16)
            usual = [16, 128, 8 * span, 0, near, far, wider]
            leading, stride = self.rng.choice(usual), self.rng.choice(usual)
            wide = k * bits // 8
            if turned:
                outer, inner = (stride, leading) if mode == 0 else (leading, stride)
                reach = (extent * bits // 8 - 1) // span * outer + (k // 8 - 1) * inner + 8 * span
            else:
                reach = (extent // 8 - 1) * stride + (wide - 1) // span * leading + 8 * span
            if reach + 128 > SHARED:
                continue
            start = self.at(SHARED, reach + 128, self.rng.choice([16, 16, 128, 1024]))
            base = self.rng.choice([0, 0, start >> 7 & 7, self.rng.randrange(8)])
            return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | mode << 62

    def warpgroup(self) -> str:
        """One to four ``wgmma``, in one or several groups, on the same accumulators."""
        while True:
            d, a, b, saturate = self.rng.choice(list(wgmma_types()))
            n = self.rng.choice(range(8, 257, 8) if d != "s32" else (8, 16, 24, *range(32, 257, 16)))
            if n <= 64 or self.rng.random() < 0.4:
                break
        sparse = a != "b1" and self.rng.random() < 0.4
        self.types += [a, b, *([d] if d != "s32" else [])]
        count, k, ratio = n // 4 if d == "f16" else n // 2, 256 // BITS[a], 2 if sparse else 1
        opcode = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{n}k{k * ratio}.{d}.{a}.{b}"
        opcode += ".and.popc" if a == "b1" else ".satfinite" if saturate else ""
        text = f"{{ .reg .b32 md<{count}>; .reg .b32 ma<4>; .reg .b64 da, db, base;"
        text += " and.b32 y, sm, 0x3ffff; shr.u32 y, y, 4; cvt.u64.u32 base, y; mad.wide.u32 q, t, 4, in;"
        text += "".join(
            f" ld.global.b32 md{i}, [q+{META + 512 * (i % ((INPUT - META) // 512))}];" for i in range(count)
        )
        if sparse:
            text += f" ld.global.b32 b0, [q+{METADATA['pairs' if a == 'tf32' else 'ordered']}];"
        text += f"{self.operand('ma', a, 4)} wgmma.fence.sync.aligned;"
        for _ in range(self.rng.choice([1, 2, 3, 4])):
            by_descriptor = self.rng.random() < 0.6
            turned = [self.rng.randrange(2) if BITS[a] == 16 else 0 for _ in "ab"]
            text += f" add.u64 db, base, {self.descriptor(n, k * ratio, BITS[b], bool(turned[1]))};"
            if by_descriptor:
                text += f" add.u64 da, base, {self.descriptor(64, k, BITS[a], bool(turned[0]))};"
            kept = "ne.u32 few, sm, -1;" if self.rng.random() < 0.8 else "eq.u32 few, t, -1;"
            more = [f"b0, {self.rng.randrange(2) if BITS[a] >= 16 else 0}"] if sparse else []
            more.append(self.maybe("!", 0.1) + "few")
            more += [self.rng.choice(["1", "-1"]) for _ in "ab"] if d != "s32" else []
            more += [str(x) for x in turned[0 if by_descriptor else 1 :]] if BITS[a] == 16 else []
            left = "da" if by_descriptor else vector("ma", 4)
            text += f" setp.{kept} {opcode} {vector('md', count)}, {left}, db, {', '.join(more)};"
            if self.rng.random() < 0.3:
                text += " wgmma.commit_group.sync.aligned;" + self.maybe(" wgmma.wait_group.sync.aligned 1;")
        text += f" wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; {self.result(4 * count)}"
        return text + "".join(f" st.global.b32 [q+{4 * i}], md{i};" for i in range(count)) + " }"

    def tile(self) -> str:
        """``wmma`` loads, a product, a store; any strides, of what is loaded also shorter than a line."""
        opcode, shape, types, la, lb = self.rng.choice(list(matrix_trials.wmma_products()))
        kinds = dict(zip("dabc", types, strict=True))
        counts = {letter: matrix_trials.wmma_count(letter, shape, kind) for letter, kind in kinds.items()}
        layouts = {"a": la, "b": lb, "c": self.rng.choice(["row", "col"]), "d": self.rng.choice(["row", "col"])}
        self.types += types[1:]
        text = "{" + "".join(f" .reg .{wide(kind)} m{letter}<{counts[letter]}>;" for letter, kind in kinds.items())
        for letter in "abc":
            stride, reach = self.stride(letter, layouts[letter], shape, kinds[letter], short=self.rng.random() < 0.2)
            space = self.rng.choice(["", ".global", ".shared", ".shared::cta"])
            shared = "shared" in space
            at = self.at(SHARED if shared else INPUT, reach, 32)
            text += f" add.u32 w, sm, {at};" if shared else f" add.u64 q, in, {at};"
            name = f"wmma.load.{letter}.sync.aligned.{layouts[letter]}.{shape}{space}.{kinds[letter]}"
            text += f" {name} {vector(f'm{letter}', counts[letter])}, [{'w' if shared else 'q'}], {stride};"
        text += f" {opcode} {', '.join(vector(f'm{letter}', counts[letter]) for letter in 'dabc')};"
        stride, reach = self.stride("d", layouts["d"], shape, kinds["d"], short=False)
        self.room += -self.room % 32
        text += f" add.u64 q, out, {GLOBAL + SHARED + self.room}; shr.u32 y, t, 5; mad.wide.u32 q, y, {reach}, q;"
        self.room += reach * 4
        name = f"wmma.store.d.sync.aligned.{layouts['d']}.{shape}.global.{kinds['d']}"
        return f"{text} {name} [q], {vector('md', counts['d'])}, {stride}; }}"

    def stride(self, letter: str, layout: str, shape: str, kind: str, *, short: bool) -> tuple[int, int]:
        """Elements from line to line, and the bytes that all lines take, a multiple of 32."""
        lines, line = matrix_trials.lines_of(letter, layout, shape)
        unit = 16 * 8 // BITS[kind]
        stride = (
            unit * self.rng.randint(1, 4) if short else line + -line % unit + unit * self.rng.choice([0, 1, 2, 3, 5])
        )
        return stride, -(-((lines - 1) * stride + line) * BITS[kind] // 8 // 32) * 32 + 32

    # ---- mbarriers ----

    def barrier(self) -> str:
        """The life of an mbarrier: changed by one thread of its own CTA, or of another; what states and parities say."""
        count = self.rng.choice([1, 2, 3, 5, 9, 1000, MOST])
        remote = self.ctas > 1 and self.rng.random() < 0.5
        guard, then = ("@one ", SYNC) if remote else ("", "")
        local, order, far = ("shared::cta.b64", ".relaxed.cta.", "[bar+64]")
        arrived = local
        if remote:
            local, order, far = "shared::cluster.b64", ".relaxed.cluster.", "[peerbar+64]"
            arrived = f"{self.rng.choice(['release', 'relaxed'])}.cluster.{local}"
        text = [f"{guard}mbarrier.init.shared::cta.b64 [bar+64], {count}; {then}"]
        if not remote:
            text.insert(0, f"@!one bra B{self.number};")
        pending, following, tx, states = count, count, 0, 0
        for _ in range(self.rng.randint(3, 9)):
            kind = self.rng.choice(["arrive", "arrive", "drop", "quiet", "expect", "complete", "both"])
            state, made = "_" if remote else f"q{states % 4}", ""
            if kind == "arrive" and pending:
                take = self.rng.choice([1, pending, self.rng.randint(1, pending)])
                made = f"mbarrier.arrive.{arrived} {state}, {far}{f', {take}' if take > 1 else ''};"
                pending -= take
            elif kind == "drop" and min(pending, following) > 1:
                take = self.rng.randint(1, min(pending, following) - 1)
                made = f"mbarrier.arrive_drop.{arrived} {state}, {far}, {take};"
                pending, following = pending - take, following - take
            elif kind == "quiet" and pending > 1 and not remote:
                take = self.rng.randint(1, pending - 1)
                made = f"mbarrier.arrive.noComplete.{arrived} {state}, {far}, {take};"
                pending -= take
            elif kind == "both" and pending and tx + 48 <= MOST:
                nbytes = self.rng.choice([0, 1, 48])
                made = f"mbarrier.arrive.expect_tx.{arrived} {state}, {far}, {nbytes};"
                tx, pending = tx + nbytes, pending - 1
            elif kind == "expect" and pending:
                nbytes = min(self.rng.choice([0, 1, 16, 4096, MOST]), MOST - tx)
                made, state = f"mbarrier.expect_tx{order}{local} {far}, {nbytes};", "_"
                tx += nbytes
            elif kind == "complete" and (tx > 0 or pending):
                nbytes = self.rng.choice([max(tx, 0), self.rng.randint(0, max(tx, 0)), 16 if pending else 0])
                made, state = f"mbarrier.complete_tx{order}{local} {far}, {nbytes};", "_"
                tx -= nbytes
            else:
                continue
            pending = following if pending == tx == 0 else pending
            text.append(f"{guard}{made} {then}")
            at = GLOBAL + SHARED + self.room
            if state != "_":
                text.append(f"mbarrier.pending_count.b64 y, {state}; st.global.b32 [out+{at}], y;")
                text.append(
                    f"mbarrier.test_wait.shared::cta.b64 done, [bar+64], {state}; selp.u32 y, 1, 0, done; st.global.b32 [out+{at + 4}], y;"
                )
                states += 1
            for parity in (0, 1):
                text.append(
                    f"mbarrier.test_wait.parity.shared::cta.b64 done, [bar+64], {parity}; selp.u32 y, 1, 0, done;"
                    f" st.global.b32 [out+{at + 8 + 4 * parity}], y; {then}"
                )
            self.room += 16
        return " ".join(
            [*text, f"{guard}mbarrier.inval.shared::cta.b64 [bar+64];" + ("" if remote else f" B{self.number}:")]
        )

    def hints(self) -> str:
        """What changes no value."""
        n = self.size()
        return self.rng.choice([
            f"@one cp.async.bulk.prefetch.L2.global [in+{self.at(INPUT, n)}], {n};", f"prefetch.global.L1 [out+{self.at(GLOBAL, 16)}];",
            f"prefetch.global.L2::evict_last [in+{self.at(INPUT, 16)}];", f"prefetchu.L1 [out+{self.at(GLOBAL, 16)}];",
            f"applypriority.global.L2::evict_normal [out+{self.at(GLOBAL, 128, 128)}], 128;",
        ])  # fmt: skip
