"""Random pipelines of copies and wgmma: correct programs, whose products are known, with early and with late effects.

Producers fill stages (bulk or tensor copies, also to a whole cluster, cp.async, stores), consumers multiply them with some
products in flight, and C leaves through registers or through shared memory. The operands are small integers: every sum is
exact, so that NumPy's int64 product is the expected value in every bit.
"""

import random
import re

import attrs
import numpy as np
import pytest

import warpsim

HOW = ("bulk", "tensor", "cp.async", "stores")
LEAVE = ("registers", "bulk", "reduce", "tensor")


@attrs.frozen
class Plan:
    """What a program does."""

    span: int
    groups: int
    n: int
    stages: int
    rounds: int
    how_a: str
    how_b: str
    in_flight: int
    crowd: bool
    cluster: bool
    ctas: int
    leave: str
    hint: bool

    @property
    def k(self):
        """Elements of K in a stage."""
        return self.span // 2

    @property
    def bytes_a(self):
        """Of A in a stage."""
        return 64 * self.groups * self.span

    @property
    def bytes_b(self):
        """Of B in a stage."""
        return self.n * self.span

    @property
    def stage(self):
        """Bytes from a stage to the next."""
        return -(-(self.bytes_a + self.bytes_b) // 1024) * 1024

    @property
    def copied(self):
        """Bytes of a stage that the async proxy brings."""
        sizes = ((self.how_a, self.bytes_a), (self.how_b, self.bytes_b))
        return sum(size for how, size in sizes if how in ("bulk", "tensor"))


def draw(seed):
    """A plan."""
    rng = random.Random(seed)
    stages = rng.randint(2, 4)
    how_b = rng.choice(HOW)
    cluster = how_b in ("bulk", "tensor") and rng.random() < 0.5
    return Plan(
        span=rng.choice((32, 64, 128)), groups=rng.choice((1, 1, 2)), n=rng.choice((16, 24, 32, 64)), stages=stages, rounds=rng.randint(1, 6),
        how_a=rng.choice(HOW), how_b=how_b, in_flight=rng.randint(0, min(2, stages - 1)), crowd=rng.random() < 0.5, cluster=cluster,
        ctas=2 if cluster else rng.randint(1, 2), leave=rng.choice(LEAVE), hint=rng.random() < 0.3,
    )  # fmt: skip


def fills(plan):
    """The producer's statements for one stage: %r10 is the stage's address, %r11 its full barrier, %rd8 the round."""
    lines, generic = [], False
    for name, how, at, size, tensor in (
        ("A", plan.how_a, 0, plan.bytes_a, "%rd5"),
        ("B", plan.how_b, plan.bytes_a, plan.bytes_b, "%rd6"),
    ):
        image = "%rd2" if name == "A" else "%rd3"
        many = plan.cluster and name == "B"
        lines.append(f"add.u32 %r12, %r10, {at}; mad.lo.u64 %rd9, %rd8, {size}, {image};")
        first = "@%p2 " if not many else "@%p5 "  # the first lane, in the first CTA of a cluster
        more = ".multicast::cluster" if many else ""
        mask = ", %h1" if many else ""
        if how == "bulk":
            lines.append(
                f"{first}cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{more} [%r12], [%rd9], {size}, [%r11]{mask};"
            )
        elif how == "tensor":
            row = "%r13" if name == "A" else "0"
            lines.append(
                f"mul.lo.u32 %r14, %r9, {plan.k}; {first}cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{more}"
                f" [%r12], [{tensor}, {{%r14, {row}}}], [%r11]{mask};"
            )
        else:
            generic = True
            step = (
                "cp.async.cg.shared.global [%r15], [%rd10], 16;"
                if how == "cp.async"
                else "ld.global.v4.b32 {%r16, %r17, %r18, %r19}, [%rd10]; st.shared.v4.b32 [%r15], {%r16, %r17, %r18, %r19};"
            )
            lines.append(
                f"shl.b32 %r14, %r3, 4; add.u32 %r15, %r12, %r14; cvt.u64.u32 %rd10, %r14; add.u64 %rd10, %rd10, %rd9;"
                f" FILL{name}: {step} add.u32 %r15, %r15, 512; add.u64 %rd10, %rd10, 512; add.u32 %r14, %r14, 512;"
                f" setp.lt.u32 %p3, %r14, {size}; @%p3 bra FILL{name};"
            )
    if plan.copied:
        lines.insert(0, f"@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r11], {plan.copied};")
    else:
        lines.insert(0, "@%p2 mbarrier.arrive.shared.b64 _, [%r11];")
    if generic:
        lines.append("cp.async.wait_all; fence.proxy.async; mbarrier.arrive.shared.b64 _, [%r11];")
    return "\n    ".join(lines)


def products(plan):
    """The consumers' products of one stage: %rd11 and %rd12 are the descriptors of A and B."""
    d = ", ".join(f"%f{i}" for i in range(plan.n // 2))
    lines = ["wgmma.fence.sync.aligned;"]
    for step in range(plan.k // 16):
        lines.append(
            f"add.u64 %rd13, %rd11, {2 * step}; add.u64 %rd14, %rd12, {2 * step};"
            f" wgmma.mma_async.sync.aligned.m64n{plan.n}k16.f32.f16.f16 {{{d}}}, %rd13, %rd14, 1, 1, 1, 0, 0;"
        )
    lines.append("wgmma.commit_group.sync.aligned;")
    return "\n    ".join(lines)


def release(plan, slot):
    """Consumers say that a slot is empty; in a cluster both CTAs hear it."""
    target = f"mad.lo.u32 %r20, {slot}, 16, %r8; add.u32 %r20, %r20, 8;"
    guard = "" if plan.crowd else "@%p4 "
    if not plan.cluster:
        return f"{target} {guard}mbarrier.arrive.shared.b64 _, [%r20];"
    remote = " ".join(
        f"mapa.shared::cluster.u32 %r21, %r20, {rank}; {guard}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21];"
        for rank in (0, 1)
    )
    return f"{target} {remote}"


def stores(plan):
    """C from the accumulators: %rd4 points to the rows of the warpgroup, %r22 is its tile in shared memory."""
    lines = []
    to_shared = plan.leave != "registers"
    pitch = plan.n * 4
    for i in range(plan.n // 4):
        row, column = 8 * (i % 2), 8 * (i // 2)
        offset = row * pitch + column * 4
        values = f"{{%f{2 * i}, %f{2 * i + 1}}}"
        lines.append(
            f"st.shared.v2.f32 [%r23+{offset}], {values};"
            if to_shared
            else f"st.global.v2.f32 [%rd15+{offset}], {values};"
        )
    if to_shared:
        copy = {
            "bulk": f"cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r22], {64 * pitch};",
            "reduce": f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd4], [%r22], {64 * pitch};",
            "tensor": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd7, {0, %r13}], [%r22];",
        }[plan.leave]
        lines.append(
            f"fence.proxy.async; add.u32 %r24, %r4, 1; bar.sync %r24, 128; @!%p4 bra DONE; {copy}"
            " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
    return "\n    ".join(lines)


def program(plan):
    """The PTX of a plan: consumer warpgroups first, then the producer warp."""
    consumers, mask = 128 * plan.groups, (plan.stages, plan.in_flight)
    mode = {32: 3, 64: 2, 128: 1}[plan.span]
    fixed = mode << 62 | (8 * plan.span >> 4) << 32 | 1 << 16
    meet = "barrier.cluster.arrive; barrier.cluster.wait;" if plan.cluster else "bar.sync 0;"
    generic = any(h in ("cp.async", "stores") for h in (plan.how_a, plan.how_b))
    empty = (consumers if plan.crowd else plan.groups) * (2 if plan.cluster else 1)
    tiles = plan.groups * 64 * plan.n * 4
    hint = ", 1000" if plan.hint else ""
    stages, in_flight = mask
    return f""".version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[]; // {stages * plan.stage} bytes
.visible .entry k(.param .u64 images_a, .param .u64 images_b, .param .u64 c, .param .align 64 .b8 map_a[128],
    .param .align 64 .b8 map_b[128], .param .align 64 .b8 map_c[128])
{{
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<20>; .reg .f32 %f<{max(plan.n // 2, 4)}>; .reg .b16 %h<2>;
    .shared .align 128 .b8 tiles[{tiles}]; .shared .align 8 .b8 bars[{16 * stages}];
    ld.param.u64 %rd2, [images_a]; ld.param.u64 %rd3, [images_b]; ld.param.u64 %rd4, [c];
    mov.b64 %rd5, map_a; cvta.param.u64 %rd5, %rd5; mov.b64 %rd6, map_b; cvta.param.u64 %rd6, %rd6; mov.b64 %rd7, map_c; cvta.param.u64 %rd7, %rd7;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; and.b32 %r3, %r1, 31; shr.u32 %r4, %r1, 7; mov.u32 %r7, smem; mov.u32 %r8, bars; mov.b16 %h1, 3;
    mad.wide.u32 %rd2, %r2, {plan.rounds * plan.bytes_a}, %rd2;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mov.u32 %r9, 0; mov.u32 %r11, %r8;
    INIT: mbarrier.init.shared.b64 [%r11], {1 + 32 * generic}; mbarrier.init.shared.b64 [%r11+8], {empty};
    add.u32 %r11, %r11, 16; add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, {stages}; @%p3 bra INIT;
    fence.mbarrier_init.release.cluster;
    READY: {meet}
    mov.u32 %r9, 0; mov.u32 %r5, 0; mov.u32 %r6, 0;
    setp.lt.u32 %p3, %r1, {consumers}; @%p3 bra CONSUME;

    setp.eq.u32 %p2, %r3, 0; mov.u32 %r14, %cluster_ctarank; setp.eq.and.u32 %p5, %r14, 0, %p2;
    mul.lo.u32 %r13, %r2, {64 * plan.groups}; mov.u32 %r6, 1;
    PRODUCE: mad.lo.u32 %r10, %r5, {plan.stage}, %r7; mad.lo.u32 %r11, %r5, 16, %r8; cvt.u64.u32 %rd8, %r9;
    FREE: mbarrier.try_wait.parity.shared.b64 %p3, [%r11+8], %r6{hint}; @!%p3 bra FREE;
    {fills(plan)}
    add.u32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, {stages}; @%p3 xor.b32 %r6, %r6, 1; @%p3 mov.u32 %r5, 0;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, {plan.rounds}; @%p3 bra PRODUCE;
    bra DONE;

    CONSUME: and.b32 %r14, %r1, 127; setp.eq.u32 %p4, %r14, 0; mov.u32 %r25, 0; mov.u32 %r26, 0;
    {" ".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(plan.n // 2))}
    NEXT: mad.lo.u32 %r11, %r5, 16, %r8;
    FULL: mbarrier.try_wait.parity.shared.b64 %p3, [%r11], %r6{hint}; @!%p3 bra FULL;
    mad.lo.u32 %r10, %r5, {plan.stage}, %r7; mad.lo.u32 %r12, %r4, {64 * plan.span}, %r10;
    shr.u32 %r12, %r12, 4; cvt.u64.u32 %rd11, %r12; or.b64 %rd11, %rd11, {fixed:#x};
    add.u32 %r12, %r10, {plan.bytes_a}; shr.u32 %r12, %r12, 4; cvt.u64.u32 %rd12, %r12; or.b64 %rd12, %rd12, {fixed:#x};
    {products(plan)}
    wgmma.wait_group.sync.aligned {in_flight};
    setp.lt.u32 %p3, %r9, {in_flight}; @%p3 bra KEEP; {release(plan, "%r26")}
    add.u32 %r26, %r26, 1; setp.eq.u32 %p3, %r26, {stages}; @%p3 mov.u32 %r26, 0;
    KEEP: add.u32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, {stages}; @%p3 xor.b32 %r6, %r6, 1; @%p3 mov.u32 %r5, 0;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, {plan.rounds}; @%p3 bra NEXT;
    wgmma.wait_group.sync.aligned 0;
    mad.lo.u32 %r13, %r2, {plan.groups}, %r4; mul.lo.u32 %r13, %r13, 64; mad.wide.u32 %rd4, %r13, {plan.n * 4}, %rd4;
    mov.u32 %r22, tiles; mad.lo.u32 %r22, %r4, {64 * plan.n * 4}, %r22;
    shr.u32 %r15, %r14, 5; mul.lo.u32 %r15, %r15, 16; shr.u32 %r16, %r3, 2; add.u32 %r15, %r15, %r16; mul.lo.u32 %r15, %r15, {plan.n * 4};
    and.b32 %r16, %r3, 3; shl.b32 %r16, %r16, 3; add.u32 %r15, %r15, %r16;
    add.u32 %r23, %r22, %r15; cvt.u64.u32 %rd15, %r15; add.u64 %rd15, %rd15, %rd4;
    {stores(plan)}
    DONE: {"barrier.cluster.arrive; barrier.cluster.wait;" if plan.cluster else ""}
    ret;
}}
"""


def images(matrix, rows, plan):
    """Stages of a matrix as they lie in shared memory: chunks of 16 bytes of a row change places."""
    parts = matrix.reshape(-1, rows, plan.rounds, plan.k).transpose(0, 2, 1, 3)
    chunks = np.ascontiguousarray(parts).view(np.uint8).reshape(*parts.shape[:2], -1, 16)
    at = np.arange(chunks.shape[2])
    where = at ^ (at >> 3 & plan.span // 16 - 1)
    out = np.empty_like(chunks)
    out[:, :, where] = chunks
    return out


def run(plan, effects, checks="default", text=None):
    """What comes out, and what should."""
    rng = np.random.default_rng(plan.rounds)
    m, k = plan.ctas * plan.groups * 64, plan.rounds * plan.k
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (plan.n, k))
    half_a, half_b = a.astype(np.float16), b.astype(np.float16)
    c = np.zeros((m, plan.n), np.float32)
    shared = {"global_strides": [2 * k], "swizzle": f"{plan.span}B"}
    text = text or program(plan)
    result = warpsim.load(text)["k"](
        (plan.ctas,), (128 * plan.groups + 32,),
        (images(half_a, 64 * plan.groups, plan), images(half_b, plan.n, plan), c,
         warpsim.TensorMap(half_a, global_dim=[k, m], box_dim=[plan.k, 64 * plan.groups], **shared),
         warpsim.TensorMap(half_b, global_dim=[k, plan.n], box_dim=[plan.k, plan.n], **shared),
         warpsim.TensorMap(c, global_dim=[plan.n, m], global_strides=[4 * plan.n], box_dim=[plan.n, 64])),
        cluster=2 if plan.cluster else None, async_effects=effects, checks=checks, max_instructions=10**6,
        shared_mem=int(re.search(r"// (\d+) bytes", text)[1]),
    )  # fmt: skip
    assert [f.headline() for f in result.findings if f.severity == "error"] == []
    return c, (a @ b.T).astype(np.float32)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] * (n > 2)) for n in range(14)])
def test_random_pipeline(seed):
    """Early and late effects give the exact product, and no rule is broken. More seeds hold likewise."""
    plan = draw(seed)
    for effects in ("eager", "at_wait"):
        found, expected = run(plan, effects)

        assert np.array_equal(found, expected), (plan, effects)


BROKEN = {
    "full": (r"FULL: mbarrier[^;]*; @!%p3 bra FULL;", "", True),
    "free": (r"FREE: mbarrier[^;]*; @!%p3 bra FREE;", "", False),  # the latest moment of a copy is behind the last use
    "wait": (r"wgmma.wait_group.sync.aligned 0;", "", True),
    "fence": (r"fence.proxy.async; add.u32 %r24", "add.u32 %r24", False),  # memory has one value, whoever looks at it
}
"""What is left out, and whether late effects show it in the values."""


@pytest.mark.parametrize(
    "why", ["full", "fence", pytest.param("free", marks=pytest.mark.long), pytest.param("wait", marks=pytest.mark.long)]
)
def test_random_pipelines_that_are_broken(why):
    """Without a wait or a fence, some programs are reported, and late effects show faults without any check."""
    pattern, less, shows = BROKEN[why]
    reported = wrong = 0
    for seed in (0, 7):
        plan = attrs.evolve(draw(seed), rounds=5, leave="bulk", ctas=1, cluster=False, groups=1)
        text = re.sub(pattern, less, program(plan))
        assert text != program(plan)
        try:
            run(plan, "eager", text=text, checks="default")
        except warpsim.ExecutionError:
            reported += 1
        try:
            found, expected = run(plan, "at_wait", text=text, checks="none")
            wrong += not np.array_equal(found, expected)
        except warpsim.ExecutionError:
            wrong += 1

    assert reported
    assert wrong or not shows
