"""Products of wgmma that a straight line of code starts one after the other: bits and findings are those of one by one.

The interpreter starts them one by one, machine code together where nothing has to be said about any of them.
"""

import random
import re

import numpy as np
import pytest

import warpsim
from warpsim.machine.binding import wgmma_chains
from warpsim.machine.watcher import Watcher
from warpsim.native.compiling import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b32 t, s, a, u, v, x<8>; .reg .{kind} d<{count}>; .reg .b64 i, o, w, da, db, ea<{n}>, eb<{n}>; .reg .pred p, q<{n}>;
.shared .align 128 .b8 room[8192];
ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mov.u32 u, %ctaid.x; mov.u32 v, %ntid.x; mad.lo.u32 v, u, v, t;
mul.wide.u32 w, v, {stride}; add.u64 o, o, w; mul.wide.u32 w, t, 32; add.u64 i, i, w; shl.b32 v, t, 5; mov.u32 s, room; add.u32 a, s, v;
ld.global.v4.b32 {{x0, x1, x2, x3}}, [i]; ld.global.v4.b32 {{x4, x5, x6, x7}}, [i+16]; add.u32 x0, x0, u;
{store}
{fence}
bar.sync 0; shr.u32 u, s, 4; cvt.u64.u32 w, u; or.b64 da, w, 0x1000080000; shr.u32 v, t, 7; setp.eq.u32 p, v, 0;
{first}
{body}
{store_out}
ret;
}}
"""
TYPES = [("f32", "f16", 16), ("f16", "f16", 16), ("f32", "bf16", 16), ("f32", "tf32", 8), ("f32", "e4m3", 32)]
STORE = "st.shared.v4.b32 [a], {x0, x1, x2, x3}; st.shared.v4.b32 [a+16], {x4, x5, x6, x7};"
ORDER, COMMIT, WAIT = (
    "wgmma.fence.sync.aligned;\n",
    "wgmma.commit_group.sync.aligned;\n",
    "wgmma.wait_group.sync.aligned 0;\n",
)


class Chains(Watcher):
    """Counts those that start together."""

    count = 0

    def wgmma_chain_started(self, machine, group, chain):
        """One does."""
        self.count += len(chain.places)


def text_of(
    products, types=TYPES[0], columns=8, *, store=STORE, fence="fence.proxy.async;", order=ORDER, end=COMMIT + WAIT
):
    """A kernel of ``products``: the offsets of A's and B's tiles in units of 16 bytes, how scale-d comes about, whether registers hold
    A, and what stands behind."""
    d, ab, k = types
    kind, count = ("b32", columns // 4) if d == "f16" else ("f32", columns // 2)
    registers, body = ", ".join(f"d{j}" for j in range(count)), order
    for number, (at_a, at_b, scale, in_registers, then) in enumerate(products):
        body += f"add.u64 ea{number}, da, {at_a}; add.u64 eb{number}, da, {at_b};\n"
        body += {"yes": f"setp.ne.u32 q{number}, t, 1000;", "no": f"setp.eq.u32 q{number}, t, 1000;",
                 "first": f"setp.eq.u32 q{number}, v, 0;"}[scale] + "\n"  # fmt: skip
        a = "{x4, x5, x6, x7}" if in_registers else f"ea{number}"
        trans = ", 0" * (1 if in_registers else 2) if k == 16 else ""
        body += f"wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{d}.{ab}.{ab} {{{registers}}}, {a}, eb{number}, q{number}, 1, 1{trans};\n"
        body += then
    return TEXT.format(
        kind=kind, count=count, n=len(products) + 1, stride=4 * count, store=store, fence=fence, body=body + end,
        first="".join(f"mov.{kind} d{j}, x{j % 4};" for j in range(count)),
        store_out="".join(f"st.global.{kind} [o+{4 * j}], d{j};" for j in range(count)),
    )  # fmt: skip


def outcome(text, engine, grid=1, **options):
    """The bits of all accumulators, the findings, the counts, and how many products started together."""
    given = np.frombuffer(random.Random(5).randbytes(8192), np.uint32)
    out, watcher = np.zeros((grid * 256, 128), np.uint32), Chains()
    result = warpsim.load(text)["k"](
        grid, 256, (given, out), engine=engine, watchers=[watcher], on_finding="collect", **options
    )
    findings = [(f.rule, f.message, f.severity, f.line, f.values, str(f)) for f in result.findings]
    return out.tobytes(), findings, (result.instructions, result.opcodes), watcher.count


def some(seed, n, *, in_registers=False):
    """Products at random places."""
    draw = random.Random(seed)
    return [
        (draw.randrange(0, 380), draw.randrange(0, 380), draw.choice(("yes", "yes", "no", "first")), in_registers, "")
        for _ in range(n)
    ]


@pytest.mark.parametrize(("seed", "grid"), [(1, 1), (2, 3)])
def test_bits_of_chains(seed, grid):
    """Whatever tiles they read, and whether C counts, in each warpgroup."""
    text = text_of(some(seed, 4))
    *alone, none = outcome(text, "interpreter", grid)
    *together, all = outcome(text, "compiled", grid)

    assert together == alone
    assert (none, all) == (0, 4)


APART = {
    "alike": "",
    "other tiles": "mov.u32 u, %ctaid.x; div.u32 u, u, 12; shl.b32 u, u, 3; cvt.u64.u32 w, u; add.u64 da, da, w;",
    "every second": "mov.u32 u, %ctaid.x; and.b32 u, u, 1; setp.eq.u32 p, u, 1; @p ret;",
}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("how", APART)
def test_ctas_side_by_side(how, n):
    """Eight CTAs' words are fetched at once where they stand side by side, at the same places; others and what is left one by one."""
    text = text_of(some(4, n)).replace("shr.u32 v, t, 7;", "shr.u32 v, t, 7; " + APART[how])
    *alone, _ = outcome(text, "interpreter", 19)
    *together, _ = outcome(text, "compiled", 19)

    assert together == alone


@pytest.mark.long
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("columns", [8, 32])
def test_bits_of_chains_of_all_types(types, columns, in_registers):
    """The same for other types and shapes, with A in registers, too."""
    for seed in range(6):
        text = text_of(some(seed, 2 + seed % 3, in_registers=in_registers), types, columns)
        *alone, _ = outcome(text, "interpreter", 1 + seed % 2)
        *together, all = outcome(text, "compiled", 1 + seed % 2)

        assert together == alone
        assert all == 2 + seed % 3


FOUR = some(3, 4)
COPY = """mov.u32 u, bar; setp.eq.u32 p, t, 0; @p mbarrier.init.shared::cta.b64 [u], 1; add.u32 a, s, 5120;
@p mbarrier.arrive.expect_tx.shared::cta.b64 w, [u], 512;
@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [i], 512, [u];
"""
IN_FLIGHT = text_of(some(3, 3, in_registers=True), TYPES[1]).split("wgmma.mma")
IN_FLIGHT[1] = IN_FLIGHT[1].replace("{d0, d1}", "{x0, x1}")
IN_FLIGHT[3] = IN_FLIGHT[3].replace("{x4, x5,", "{x0, x1,")
RESHAPED = text_of(FOUR, columns=16).rpartition("wgmma.mma")
BROKEN = {
    "copies still write": text_of(FOUR, order=COPY + ORDER).replace("room[8192];", "room[8192]; .shared .align 8 .b64 bar;"),
    "A in flight": "wgmma.mma".join(IN_FLIGHT),
    "another shape": "".join(RESHAPED[:2]) + RESHAPED[2].replace("n16", "n8").replace("d3, d4, d5, d6, d7}", "d3}"),
    "no proxy fence": text_of(FOUR, fence=""),
    "not written": text_of(FOUR, store="st.shared.v4.b32 [a], {x0, x1, x2, x3};"),
    "one not written": text_of(FOUR, store=f"setp.ne.u32 p, t, 128; @p {STORE}".replace("; st", "; @p st")),
    "no fence": text_of(FOUR, order=""),
    "beyond": text_of([*FOUR[:2], (500, 0, "yes", False, ""), FOUR[3]]),
    "overlapping": text_of(FOUR).replace("0x1000080000", "0x0000080000"),
    "overwritten": text_of(FOUR, end=COMMIT + STORE + WAIT),
    "a later one overwritten": text_of(
        [(0, 8, "yes", False, ""), (256, 264, "yes", False, "")], end=COMMIT + "st.shared.b32 [s+4096], x0;" + WAIT
    ),
    "read early": text_of(FOUR, end=COMMIT + "mov.b32 x0, d0; add.u32 x0, x0, 1;" + WAIT),
    "read between": text_of([*FOUR[:2], (*FOUR[2][:4], "add.f32 d0, d0, d0;"), FOUR[3]]),
    "written between": text_of([*some(3, 2, in_registers=True), (1, 2, "yes", True, "mov.b32 x4, x5;"), *some(4, 2, in_registers=True)]),
    "not committed": text_of(FOUR, end=""),
    "threads differ": text_of(FOUR).replace("add.u64 ea2, da,", "and.b32 u, t, 1; cvt.u64.u32 w, u; add.u64 ea2, da, w; add.u64 ea2, ea2,"),
    "accumulators as A": text_of(some(3, 4, in_registers=True), TYPES[1]).replace("{x4, x5,", "{d0, d1,"),
    "no descriptor": text_of(FOUR).replace("add.u64 ea2, da,", "add.u64 ea2, ea4,"),
    "not defined": text_of(FOUR).replace("mov.f32 d1, x1;", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_findings_of_chains(name):
    """Each names its own line."""
    *alone, _ = outcome(BROKEN[name], "interpreter")
    *together, _ = outcome(BROKEN[name], "compiled")

    assert alone[1]
    assert together == alone


OTHER = {
    "transposed": (", 1, 1, 0, 0", ", 1, 1, 0, 1"),
    "negated": (", 1, 1, 0, 0", ", 1, -1, 0, 0"),
    "type": (".f16.f16", ".bf16.bf16"),
    "accumulators": ("d0, d1", "d1, d0"),
    "guard": ("wgmma", "@q0 wgmma"),
}


@pytest.mark.parametrize("name", OTHER)
def test_products_of_another_kind(name):
    """They end a chain."""
    lines = text_of(FOUR).splitlines(keepends=True)
    text = "".join(line.replace(*OTHER[name]) if "ea2," in line and "wgmma" in line else line for line in lines)
    *alone, _ = outcome(text, "interpreter")
    *together, some = outcome(text, "compiled")

    assert together == alone
    assert some == 2


def test_descriptors_that_hold_a_rank():
    """In a cluster, addresses of shared memory have to be masked."""
    text = text_of(FOUR)
    *alone, _ = outcome(text, "interpreter", 2, cluster=(2, 1, 1))
    *together, _ = outcome(text, "compiled", 2, cluster=(2, 1, 1))

    assert alone[1]
    assert together == alone


def test_sparse_products():
    """They are no chain."""
    text = text_of(FOUR).replace("async.sync", "async.sp.sync").replace("n8k16", "n8k32")
    text = re.sub(r", (q\d, 1)", r", u, 0, \1", text).replace(ORDER, "mov.b32 u, 0x44444444;\n" + ORDER)
    *alone, _ = outcome(text, "interpreter")

    assert alone[1] == []
    assert outcome(text, "compiled") == (*alone, 0)


def test_negated_products():
    """Chains only add."""
    text = text_of(FOUR).replace(", 1, 1, 0, 0", ", -1, 1, 0, 0")

    assert outcome(text, "compiled") == outcome(text, "interpreter")


def test_what_is_kept_has_an_end(monkeypatch):
    """Where CTAs read different tiles, each set of them takes as much memory as there are CTAs."""
    text = text_of([(a, b, "yes", False, "") for a, b, *_ in FOUR])
    text = text.replace(ORDER, "mov.u32 u, 0; mov.u32 v, %ctaid.x;\nagain:\n" + ORDER)
    text = text.replace("add.u64 ea2, da,", "mul.wide.u32 w, v, u; add.u64 ea2, da, w; add.u64 ea2, ea2,")
    text = text.replace(WAIT, WAIT + "add.u32 u, u, 1; setp.lt.u32 p, u, 5; @p bra again;\n")
    sizes, read = [], wgmma_chains.Links._read

    def followed(link, machine, group):
        """Look at what there is."""
        found = read(link, machine, group)
        sizes.append(sum(c.size for t in link._tiles.values() for c in t.chunks))
        return found

    monkeypatch.setattr(wgmma_chains.Links, "_read", followed)
    monkeypatch.setattr(wgmma_chains, "KEPT", 2000)
    monkeypatch.setattr(wgmma_chains, "LEAST", 1)
    *alone, _ = outcome(text, "interpreter", 3)
    *together, all = outcome(text, "compiled", 3)

    assert together == alone
    assert all == len(sizes) * 4 == 20
    assert 0 < max(sizes) <= 2000


def test_groups_of_other_extents():
    """The same descriptors are of more warpgroups and CTAs before some leave a loop, and of other launches."""
    text = text_of(FOUR).replace(
        ORDER, "mov.u32 u, 0; mov.u32 s, %ctaid.x; add.u32 s, s, v; shl.b32 s, s, 1;\nagain:\n" + ORDER
    )
    text = text.replace(WAIT, WAIT + "add.u32 u, u, 1; setp.le.u32 p, u, s; @p bra again;\n")
    given = np.frombuffer(random.Random(5).randbytes(8192), np.uint32)
    found = {}
    for engine in "interpreter", "compiled":
        kernel, watcher = warpsim.load(text)["k"], Chains()
        outs = [np.zeros((grid * 256, 4), np.uint32) for grid in (3, 1, 2)]
        for out in outs:
            kernel(len(out) // 256, 256, (given, out), engine=engine, watchers=[watcher])
        found[engine] = [out.tobytes() for out in outs], watcher.count

    assert found["compiled"][0] == found["interpreter"][0]
    assert found["compiled"][1]


def test_a_part_of_a_warpgroup_waits():
    """Half of the first warpgroup comes to a barrier that the second reaches behind its products."""
    before = "setp.ge.u32 p, t, 128; @p bra on; setp.lt.u32 p, t, 64; @p bra on; bar.sync 1, 192;\non:\n"
    after = "setp.lt.u32 p, t, 128; @p bra off; bar.arrive 1, 192;\noff:\n"
    text = text_of(FOUR, end=COMMIT + WAIT + after).replace(ORDER, ORDER + before)
    *alone, _ = outcome(text, "interpreter")
    *together, all = outcome(text, "compiled")

    assert together == alone
    assert all == 8


def test_registers_that_change_between():
    """Products that share a register for their descriptors, each with another value, are no chain."""
    text = text_of([(*product[:4], f"add.u64 ea{k}, ea{k}, 7;") for k, product in enumerate(FOUR)])
    *alone, _ = outcome(text, "interpreter")
    *together, all = outcome(text, "compiled")

    assert together == alone
    assert all == 0


def test_sums_that_begin_with_a_product():
    """Accumulators that nothing has written count for nothing where scale-d is false: no product brings them back."""
    text = text_of([(1, 2, "no", False, ""), *FOUR])
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("mov.f32 d0"))
    *alone, _ = outcome(text, "interpreter")
    *together, _ = outcome(text, "compiled")

    assert alone[1] == []
    assert together == alone


USED = {"as A": ("{x4, x5, x6, x7}, eb0", "{d0, d1, x6, x7}, eb0"), "behind a guard": ("wgmma.mma", "@q0 wgmma.mma")}


@pytest.mark.parametrize("how", USED)
def test_accumulators_that_nobody_has_written(how):
    """A product that replaces them uses them all the same where they are its A; one whose guard is false leaves them."""
    text = text_of([(1, 2, "no", True, "")], TYPES[1]).replace(*USED[how])
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("mov.b32 d0"))
    *alone, _ = outcome(text, "interpreter")
    *together, _ = outcome(text, "compiled")

    assert [rule for rule, *_ in alone[1]] == ["uninitialised"] * 2
    assert together == alone


def test_undefined_sums_that_a_product_replaces():
    """Where scale-d is false, it does not matter what an earlier product has read."""
    hole = f"setp.ne.u32 p, t, 128; @p {STORE}".replace("; st", "; @p st")
    text = text_of([*FOUR[:2], (*FOUR[2][:2], "no", *FOUR[2][3:]), FOUR[3]], store=hole)
    *alone, _ = outcome(text, "interpreter")

    assert alone[1] == []
    assert outcome(text, "compiled") == (*alone, 0)


def test_chains_where_others_look_on():
    """A watcher of single products sees each; so does a random order, and effects that come late need them one by one."""

    class Issues(Watcher):
        lines = ()

        def wgmma_issued(self, machine, group, issue):
            """One starts."""
            self.lines += (group.instruction.span.line,)

    text, watcher = text_of(FOUR), Issues()
    given, out = np.zeros(2048, np.uint32), np.zeros((256, 4), np.uint32)
    warpsim.load(text)["k"](1, 256, (given, out), engine="compiled", watchers=[watcher])

    assert len(set(watcher.lines)) == 4
    assert outcome(text, "compiled", async_effects="at_wait") == (*outcome(text, "interpreter")[:3], 0)
    assert outcome(text, "compiled", schedule=1) == outcome(text, "interpreter", schedule=1)
