"""PTX of kernels that go through the forms of mbarriers, clusters and asynchronous stores one after the other.

Each step writes what it saw to ``out``, one 32-bit word for each value.
"""

HEAD = """.version 8.6
.target sm_90a
.address_size 64
"""


class Log:
    """Statements that append words to ``out`` (%rd1 points there)."""

    def __init__(self):
        self.lines, self.count = [], 0

    def do(self, *lines):
        """Statements as they are."""
        self.lines += lines

    def word(self, register):
        """One word of every thread that comes here."""
        self.lines.append(f"st.global.b32 [%rd1+{4 * self.count}], {register};")
        self.count += 1

    def flag(self, predicate="%p1"):
        """A predicate as a word."""
        self.lines.append(f"selp.b32 %r9, 1, 0, {predicate};")
        self.word("%r9")

    def pending(self, state="%rd2"):
        """The pending count of a state."""
        self.lines.append(f"mbarrier.pending_count.b64 %r9, {state};")
        self.word("%r9")

    def looks(self, *states):
        """Whether the phases of both parities, and of some states, are over."""
        for parity in (0, 1):
            self.lines.append(f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], {parity};")
            self.flag()
        for state in states:
            self.lines.append(f"mbarrier.test_wait.shared::cta.b64 %p1, [%r2], {state};")
            self.flag()

    @property
    def body(self):
        """All statements."""
        return "\n    ".join(self.lines)


def mbarrier_forms():
    """One thread goes through phases of an mbarrier: counts, drops, tx-counts in every order."""
    log = Log()

    def phase(count, *steps):
        log.do(f"mbarrier.init.shared::cta.b64 [%r2], {count};")
        for step in steps:
            if step == "look":
                log.looks()
            elif step == "state":
                log.looks("%rd2")
            elif step == "pending":
                log.pending()
            else:
                log.do(step)
        log.do("mbarrier.inval.shared::cta.b64 [%r2];")

    def arrive(words="", *operands, d="%rd2"):
        return f"mbarrier.{words or 'arrive'}.shared::cta.b64 {', '.join([d, '[%r2]', *map(str, operands)])};"

    def bytes_(word, n):
        return f"mbarrier.{word}.relaxed.cta.shared::cta.b64 [%r2], {n};"

    phase(5, "look", arrive(), "pending", "state", arrive("arrive", 2), "pending", "state", arrive("arrive.noComplete", 1), "pending", "state",
          arrive(), "pending", "state", arrive("arrive", 4), "pending", "state", arrive(), "pending", "state")  # fmt: skip
    phase(6, arrive("arrive_drop", 2), "pending", "look", arrive("arrive", 4), "pending", "state", arrive("arrive", 3), "pending", "state",
          arrive(), "pending", "state", arrive("arrive_drop.noComplete", 2), "pending", arrive("arrive_drop"), "pending", "state", arrive(), "pending", "state")  # fmt: skip
    phase(1, bytes_("expect_tx", 64), arrive(), "pending", "state", bytes_("complete_tx", 32), "state", bytes_("complete_tx", 32), "state",
          arrive("arrive.expect_tx", 48), "pending", bytes_("complete_tx", 16), "state", bytes_("expect_tx", 8), bytes_("complete_tx", 40), "state", "look")  # fmt: skip
    phase(2, bytes_("complete_tx", 16), "look", arrive("arrive.expect_tx", 0), "look", arrive(), "pending", "state", bytes_("expect_tx", 16), "state", "look")  # fmt: skip
    phase(2, bytes_("expect_tx", 1048575), bytes_("complete_tx", 1048575), arrive("arrive", 2), "pending", "state", bytes_("complete_tx", 1048575), arrive("arrive", 2), "state",
          bytes_("expect_tx", 1048575), "state")  # fmt: skip
    phase(3, arrive("arrive_drop.expect_tx", 16), "pending", arrive("arrive", 2), "state", bytes_("complete_tx", 16), "state", arrive("arrive", 2), "pending", "state")  # fmt: skip
    phase(1048575, arrive("arrive", 1048574), "pending", "state", arrive(), "pending", "state", arrive("arrive", 1048575), "state")  # fmt: skip
    phase(2, arrive(), "mbarrier.try_wait.shared::cta.b64 %p1, [%r2], %rd2, 100;")
    log.flag()
    phase(2, arrive("arrive.release.cluster", 2), "mbarrier.try_wait.acquire.cluster.shared::cta.b64 %p1, [%r2], %rd2;")
    log.flag()
    phase(1, arrive("arrive.relaxed.cta"), "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p1, [%r2], 0, 1000;")
    log.flag()
    phase(1, "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0, 100;")
    log.flag()
    phase(1, "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 1, 100;")
    log.flag()
    text = f"""{HEAD}.visible .entry forms(.param .u64 out)
{{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
    .shared .align 8 .b8 bar[8];
    griddepcontrol.wait;
    griddepcontrol.launch_dependents;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 0; @%p2 ret;
    mov.u32 %r2, bar;
    {log.body}
    ret;
}}
"""
    return text, log.count


def elected():
    """Leaders of whole and of diverged warps; every thread logs the leader it was told, and whether it is the one."""
    log = Log()
    masks = ("0xffffffff",)
    for mask in masks:
        log.do(f"elect.sync %r5|%p1, {mask};")
        log.word("%r5")
        log.flag()
    first = log.body
    branches = []
    for n, (low, high) in enumerate(((0, 5), (5, 6), (6, 17), (17, 32))):
        mask = sum(1 << k for k in range(low, high))
        branches.append(
            f"setp.ge.u32 %p1, %r1, {low}; setp.lt.and.u32 %p1, %r1, {high}, %p1; @!%p1 bra PART{n};"
            f" elect.sync %r5|%p2, {mask:#x}; st.global.b32 [%rd1+8], %r5; selp.b32 %r9, 1, 0, %p2; st.global.b32 [%rd1+12], %r9;"
            f"\n    PART{n}:"
        )
    text = f"""{HEAD}.visible .entry forms(.param .u64 out)
{{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %laneid; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 16; add.u64 %rd1, %rd1, %rd2;
    {first}
    {(chr(10) + "    ").join(branches)}
    ret;
}}
"""
    return text, 4


SPECIALS = ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
STORES = ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
REDUCTIONS = (
    *(("and", "b32"), ("or", "b32"), ("xor", "b32"), ("inc", "u32"), ("dec", "u32")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32")),
    *(("add", t) for t in ("u32", "s32", "u64", "s64")),
)


def cluster_forms():
    """CTAs of a cluster write to each other's shared memory in every asynchronous way; then each dumps its own."""
    log = Log()
    for name in SPECIALS:
        for axis in "xyz":
            log.do(f"mov.u32 %r5, %{name}.{axis};")
            log.word("%r5")
    for name in ("cluster_ctarank", "cluster_nctarank"):
        log.do(f"mov.u32 %r5, %{name};")
        log.word("%r5")
    log.do("mov.pred %p1, %is_explicit_cluster;")
    log.flag()
    # addresses: %r4 is the tile of the peer, %r6 its mbarrier
    log.do("mapa.shared::cluster.u32 %r4, tile, %r3;", "getctarank.shared::cluster.u32 %r5, %r4;")
    log.word("%r5")
    log.do("getctarank.shared::cluster.u32 %r5, %r2;")
    log.word("%r5")
    log.do("cvta.shared.u64 %rd4, %rd3;", "mapa.u64 %rd5, %rd4, %r3;", "getctarank.u64 %r5, %rd5;")
    log.word("%r5")
    log.do("getctarank.u64 %r5, %rd4;")
    log.word("%r5")
    log.do("mapa.shared::cluster.u32 %r6, bar, %r3;")
    specials = log.body
    at, steps, nbytes = 0, [], 0
    for n, t in enumerate(STORES):
        size = int(t[1:]) // 8
        for vec in ("", "v2", "v4") if size == 4 else ("", "v2"):
            width = {"": 1, "v2": 2, "v4": 4}[vec]
            at = -(-at // (size * width)) * (size * width)
            register = (
                f"%{'f' if t[0] == 'f' else 'r'}{'' if size == 4 else 'd'}"
                if t[0] == "f"
                else ("%r" if size == 4 else "%rd")
            )
            kind = {"f32": "%f", "f64": "%fd"}.get(t, register)
            values = ", ".join(f"{kind}{20 + k}" for k in range(width))
            words = f".{vec}" if vec else ""
            weak = ".weak" if n % 2 else ""
            steps.append(
                f"st.async{weak}.shared::cluster.mbarrier::complete_tx::bytes{words}.{t} [%r4+{at}],"
                f" {'{' + values + '}' if vec else values}, [%r6];"
            )
            at += size * width
            nbytes += size * width
    at = -(-at // 8) * 8
    for op, t in REDUCTIONS:
        size = int(t[1:]) // 8
        at = -(-at // size) * size
        register = "%r21" if size == 4 else "%rd21"
        steps.append(
            f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{t} [%r4+{at}], {register}, [%r6];"
        )
        at += size
        nbytes += size
    copied = at = -(-at // 16) * 16
    steps.append(
        f"add.u32 %r5, %r4, {at}; cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r7], 32, [%r6];"
    )
    at += 32
    nbytes += 32
    for op, t in REDUCTIONS:
        if t != "s64":
            steps.append(
                f"add.u32 %r5, %r4, {at}; add.u32 %r8, %r7, {32 + at - copied};"
                f" cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{t} [%r5], [%r8], 16, [%r6];"
            )
            at += 16
            nbytes += 16
    shared = at
    words = shared // 4
    text = f"""{HEAD}.visible .entry forms(.param .u64 out, .param .u64 in)
{{
    .reg .pred %p<6>; .reg .b32 %r<30>; .reg .b64 %rd<30>; .reg .f32 %f<30>; .reg .f64 %fd<30>;
    .shared .align 128 .b8 tile[{shared}];
    .shared .align 128 .b8 source[1024];
    .shared .align 8 .b8 bar[16];
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
    mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y; mov.u32 %r12, %nctaid.x; mad.lo.u32 %r10, %r11, %r12, %r10;
    mul.wide.u32 %rd6, %r10, {4 * (log.count + words + 2)}; add.u64 %rd1, %rd1, %rd6;
    mul.wide.u32 %rd6, %r10, 2048; add.u64 %rd2, %rd2, %rd6;
    mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0;
    mov.u32 %r2, tile; mov.u32 %r7, source; mov.u32 %r13, bar; mov.u64 %rd3, tile;
    mov.u32 %r14, 0; mul.wide.u32 %rd6, %r1, 4; add.u64 %rd7, %rd2, %rd6; shl.b32 %r15, %r1, 2;
    FILL: ld.global.b32 %r16, [%rd7]; add.u32 %r17, %r2, %r15; setp.lt.u32 %p3, %r15, {shared}; @%p3 st.shared.b32 [%r17], %r16;
    ld.global.b32 %r16, [%rd7+1024]; add.u32 %r17, %r7, %r15; setp.lt.u32 %p3, %r15, 1024; @%p3 st.shared.b32 [%r17], %r16;
    add.u32 %r15, %r15, 128; add.u64 %rd7, %rd7, 128; setp.lt.u32 %p3, %r15, 1024; @%p3 bra FILL;
    @%p2 mbarrier.init.shared::cta.b64 [%r13], 1;
    @%p2 mbarrier.init.shared::cta.b64 [%r13+8], 7;
    @%p2 fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    mov.u32 %r18, %cluster_ctarank; mov.u32 %r19, %cluster_nctarank;
    add.u32 %r3, %r18, 1; rem.u32 %r3, %r3, %r19;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    @!%p2 bra MEET;
    {specials}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {nbytes};
    ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd2]; ld.global.v2.b64 {{%rd20, %rd21}}, [%rd2+16];
    ld.global.v4.f32 {{%f20, %f21, %f22, %f23}}, [%rd2]; ld.global.v2.f64 {{%fd20, %fd21}}, [%rd2+16];
    {(chr(10) + "    ").join(steps)}
    mapa.shared::cluster.u32 %r24, %r13, %r3;
    mbarrier.arrive.shared::cluster.b64 _, [%r24+8];
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r24+8], 2;
    mbarrier.arrive_drop.relaxed.cluster.shared::cluster.b64 _, [%r24+8], 2;
    mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r24+8], 24;
    mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r24+8], 8;
    mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%r24+8], 8;
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r24+8], 40;
    MEET:
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r13], 0; @!%p1 bra WAIT;
    WAIT2: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r13+8], 0; @!%p1 bra WAIT2;
    @%p2 mbarrier.arrive.noComplete.shared::cta.b64 %rd8, [%r13+8], 1;
    @%p2 mbarrier.pending_count.b64 %r25, %rd8;
    @%p2 st.global.b32 [%rd1+{4 * log.count}], %r25;
    shl.b32 %r15, %r1, 2; cvt.u64.u32 %rd6, %r15; add.u64 %rd7, %rd1, %rd6;
    DUMP: setp.lt.u32 %p3, %r15, {shared}; add.u32 %r17, %r2, %r15; @%p3 ld.shared.b32 %r16, [%r17]; @%p3 st.global.b32 [%rd7+{4 * log.count + 8}], %r16;
    add.u32 %r15, %r15, 128; add.u64 %rd7, %rd7, 128; setp.lt.u32 %p3, %r15, {shared}; @%p3 bra DUMP;
    barrier.cluster.arrive;
    barrier.cluster.wait.acquire;
    ret;
}}
"""
    return text, log.count + words + 2


def multicast():
    """CTAs send runs of their own input to subsets of their cluster; every CTA dumps what it got.

    CTA ``r`` of four loads 64 bytes for each mask, to the place ``r * 64`` of the part of that mask."""
    masks = (0b1111, 0b0001, 0b1010, 0b0110)
    total = len(masks) * 256
    expected = [sum(64 * 4 for m in masks if m >> rank & 1) for rank in range(4)]
    steps = "\n    ".join(
        f"mov.b16 %h1, {mask}; add.u32 %r4, %r3, {256 * n}; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        f".multicast::cluster [%r4], [%rd3], 64, [%r5], %h1; add.u64 %rd3, %rd3, 64;"
        for n, mask in enumerate(masks)
    )
    chosen = "\n    ".join(f"setp.eq.u32 %p1, %r2, {rank}; @%p1 mov.u32 %r7, {n};" for rank, n in enumerate(expected))
    text = f"""{HEAD}.visible .entry forms(.param .u64 out, .param .u64 in)
{{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<9>; .reg .b16 %h<2>;
    .shared .align 128 .b8 tile[{total}];
    .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0; mov.u32 %r2, %cluster_ctarank; mov.u32 %r6, %ctaid.x;
    mul.wide.u32 %rd3, %r6, {64 * len(masks)}; add.u64 %rd3, %rd2, %rd3;
    mul.wide.u32 %rd4, %r6, {total}; add.u64 %rd1, %rd1, %rd4;
    mov.u32 %r3, tile; shl.b32 %r4, %r2, 6; mov.u32 %r5, bar; mov.u32 %r8, %r3; add.u32 %r3, %r3, %r4; mov.u32 %r7, 0;
    {chosen}
    shl.b32 %r9, %r1, 2; add.u32 %r10, %r8, %r9;
    FILL: st.shared.b32 [%r10], 0; add.u32 %r10, %r10, 128; add.u32 %r9, %r9, 128; setp.lt.u32 %p1, %r9, {total}; @%p1 bra FILL;
    @%p2 mbarrier.init.shared::cta.b64 [%r5], 1;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], %r7;
    @%p2 fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @!%p2 bra WAIT;
    {steps}
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], 0; @!%p1 bra WAIT;
    shl.b32 %r9, %r1, 2; add.u32 %r10, %r8, %r9; cvt.u64.u32 %rd4, %r9; add.u64 %rd1, %rd1, %rd4;
    DUMP: ld.shared.b32 %r11, [%r10]; st.global.b32 [%rd1], %r11; add.u64 %rd1, %rd1, 128;
    add.u32 %r10, %r10, 128; add.u32 %r9, %r9, 128; setp.lt.u32 %p1, %r9, {total}; @%p1 bra DUMP;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}}
"""
    return text, total // 4


def register_counts(directives, first):
    """Two warpgroups: the first reads a word after ``first``, the second writes it late and then gives registers back."""
    return f"""{HEAD}.visible .entry forms(.param .u64 out) {directives}
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .b32 word;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0; @%p2 st.volatile.shared.b32 [word], 1; bar.sync 0;
    setp.ge.u32 %p1, %r1, 128; @%p1 bra SECOND;
    {first}
    bar.sync 3, 128; ld.volatile.shared.b32 %r2, [word]; bar.sync 3, 128;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.b32 [%rd1], %r2;
    ret;
    SECOND: mov.u32 %r5, 0; SLOW: add.u32 %r5, %r5, 1; nanosleep.u32 1000; setp.lt.u32 %p3, %r5, 200; @%p3 bra SLOW;
    setp.eq.u32 %p2, %r1, 128; @%p2 st.volatile.shared.b32 [word], 7;
    bar.sync 1, 128;
    setmaxnreg.dec.sync.aligned.u32 32;
    ret;
}}
"""
