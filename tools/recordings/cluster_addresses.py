"""Addresses of shared memory in clusters and without: python3 cluster_addresses.py > OUT.txt, on a GPU of sm_90.

First what a launch without a cluster returns that loads through an address. Then what launches return that reach for a CTA which their
clusters have, or do not have; and what a CTA of 2, 4 or 8 loads through the plain address of a variable of the next one. Then, of launches
without a cluster and with clusters of 1, 2 and 4 CTAs: for each CTA the address of a variable, and for each address A and rank B what is
made of them (columns: the table's head; generic addresses are relative to the window).
"""

import ctypes as C
import os
import sys

import numpy as np

ADDRESSES = (0x400, 0x404, 0x123456, 0x1000400, 0x5000040, 0xFF001234)
RANKS = (0, 1, 2, 3, 7, 8, 16, 255, 256, 257, 0x1001, 0xFFFFFFFF)
PAIRS = [(a, b) for a in ADDRESSES for b in RANKS]
HEAD = "mapa.shared::cluster.u32 .u64 mapa.u32 .u64 getctarank.shared::cluster.u32 .u64 getctarank.u64 isspacep.shared::cta ::cluster"
HOWS = {
    "ld.shared::cluster": "ld.shared::cluster.u32 %r5, [%r4];",
    "ld": "ld.u32 %r5, [%d4];",
    "st.shared::cluster": "st.shared::cluster.u32 [%r4], 5;",
    "st": "st.u32 [%d4], 5;",
    "atom.shared::cluster": "atom.shared::cluster.add.u32 %r5, [%r4], 1;",
    "mbarrier.arrive": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];",
    "st.async": "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r4], 5, [%r6];",
    "cp.async.bulk": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%r3], 16, [%r6];",
}
REACH = """.version 8.1\n.target sm_90\n.address_size 64
.visible .entry reach(.param .u64 in, .param .u64 out, .param .u32 rank) {
.reg .b64 %d<5>; .reg .b32 %r<9>; .shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [rank]; mov.u32 %r3, s; mov.u32 %r7, bar; mbarrier.init.shared.b64 [%r7], 8; st.shared.u32 [%r3], 7;
fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r5, 7;
mapa.shared::cluster.u32 %r4, %r3, %r1; mapa.shared::cluster.u32 %r6, %r7, %r1; cvt.u64.u32 %d2, %r3; cvta.shared.u64 %d2, %d2; mapa.u64 %d4, %d2, %r1;
HOW
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; st.global.u32 [%d1], %r5; ret; }
.visible .entry plain(.param .u64 in, .param .u64 out, .param .u32 n) {
.reg .b64 %d<9>; .reg .b32 %r<9>; .shared .align 128 .b8 s[1024];
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r3, s; mov.u32 %r2, %cluster_ctarank; add.u32 %r4, %r2, 100; st.shared.u32 [%r3], %r4;
cvt.u64.u32 %d2, %r3; cvta.shared.u64 %d2, %d2; mad.wide.u32 %d3, %r2, 32, %d1; st.global.u64 [%d3], %d2; st.global.u32 [%d3+8], %r3; fence.acq_rel.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; add.u32 %r5, %r2, 1; rem.u32 %r5, %r5, %r1; mad.wide.u32 %d4, %r5, 32, %d1;
ld.global.u64 %d5, [%d4]; ld.u32 %r6, [%d5]; st.global.u32 [%d3+16], %r6; ld.global.u32 %r7, [%d4+8]; ld.shared::cluster.u32 %r6, [%r7]; st.global.u32 [%d3+20], %r6;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }
"""
TEXT = """.version 8.0\n.target sm_90\n.address_size 64
.visible .entry table(.param .u64 in, .param .u64 out) {
.reg .b64 %d<20>; .reg .b32 %r<20>; .reg .pred %p<3>; .shared .align 1024 .b8 s[1024];
ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.wide.u32 %d1, %r1, 8, %d1; mad.lo.u32 %r4, %r2, %r3, %r1; mad.wide.u32 %d2, %r4, 80, %d2;
ld.global.v2.u32 {%r5, %r6}, [%d1]; cvt.u64.u32 %d3, %r5; mov.u64 %d4, 0; cvta.shared.u64 %d4, %d4; cvt.u32.u64 %r7, %d4; add.u64 %d5, %d4, %d3; add.u32 %r8, %r7, %r5;
mapa.shared::cluster.u32 %r9, %r5, %r6; cvt.u64.u32 %d6, %r9; mapa.shared::cluster.u64 %d7, %d3, %r6;
mapa.u32 %r10, %r8, %r6; sub.u32 %r10, %r10, %r7; cvt.u64.u32 %d8, %r10; mapa.u64 %d9, %d5, %r6; sub.u64 %d10, %d9, %d4;
getctarank.shared::cluster.u32 %r11, %r9; getctarank.shared::cluster.u64 %r12, %d7; getctarank.u64 %r13, %d9;
isspacep.shared::cta %p1, %d9; isspacep.shared::cluster %p2, %d9; selp.u32 %r14, 1, 0, %p1; selp.u32 %r15, 1, 0, %p2;
st.global.u64 [%d2], %d6; st.global.u64 [%d2+8], %d7; st.global.u64 [%d2+16], %d8; st.global.u64 [%d2+24], %d10;
cvt.u64.u32 %d11, %r11; st.global.u64 [%d2+32], %d11; cvt.u64.u32 %d11, %r12; st.global.u64 [%d2+40], %d11; cvt.u64.u32 %d11, %r13; st.global.u64 [%d2+48], %d11;
cvt.u64.u32 %d11, %r14; st.global.u64 [%d2+56], %d11; cvt.u64.u32 %d11, %r15; st.global.u64 [%d2+64], %d11;
mov.u32 %r16, s; cvt.u64.u32 %d11, %r16; st.global.u64 [%d2+72], %d11; ret; }
.visible .entry load(.param .u64 in, .param .u64 out, .param .u32 rank, .param .u32 generic) {
.reg .b64 %d<5>; .reg .b32 %r<7>; .reg .pred %p; .shared .align 1024 .b8 s[1024];
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [rank]; ld.param.u32 %r2, [generic]; mov.u32 %r3, s; st.shared.u32 [%r3], 7; setp.ne.u32 %p, %r2, 0; @%p bra G;
mapa.shared::cluster.u32 %r4, %r3, %r1; ld.shared::cluster.u32 %r5, [%r4]; st.global.u32 [%d1], %r5; ret;
G: cvt.u64.u32 %d2, %r3; cvta.shared.u64 %d2, %d2; mapa.u64 %d3, %d2, %r1; ld.u32 %r5, [%d3]; st.global.u32 [%d1], %r5; ret; }
"""


def launched(entry, cluster, *more, text=TEXT):
    """The status of a launch and its output, u64."""
    from record import Attribute, Config, Gpu

    gpu, given, out = Gpu(), np.array(PAIRS, np.uint32), np.zeros(max(cluster, 1) * len(PAIRS) * 10, np.uint64)
    places = C.c_uint64(), C.c_uint64()
    for place, array in zip(places, (given, out), strict=True):
        gpu("cuMemAlloc_v2", C.byref(place), array.nbytes)
        gpu("cuMemcpyHtoD_v2", place, array.ctypes.data_as(C.c_void_p), C.c_size_t(array.nbytes))
    words = [*places, *map(C.c_uint32, more)]
    arguments, attributes = (C.c_void_p * len(words))(*map(C.addressof, words)), (Attribute * 1)()
    attributes[0].id, attributes[0].value[0:3] = 4, (cluster, 1, 1)
    grid, block = (C.c_uint * 3)(max(cluster, 1), 1, 1), (C.c_uint * 3)(1 if more else len(PAIRS), 1, 1)
    config = Config(grid, block, 0, None, attributes, int(cluster > 0))
    gpu("cuLaunchKernelEx", C.byref(config), gpu.kernel(text.encode(), entry), arguments, None)
    status = gpu.cu.cuCtxSynchronize() or gpu.cu.cuMemcpyDtoH_v2(
        out.ctypes.data_as(C.c_void_p), places[1], C.c_size_t(out.nbytes)
    )
    return status, out


def apart(says, *given, **more):
    """Print what a launch returns, in a process of its own: a fault ends all that a process does on the GPU."""
    if os.fork() == 0:
        status, out = launched(*given, **more)
        print(says, "returns", status, "and", int(out[0]) & 0xFFFFFFFF)
        sys.stdout.flush()
        os._exit(0)
    os.wait()


if __name__ == "__main__":
    for generic in (0, 1):
        for rank in (0, 1, 2, 256):
            apart(f"load {('shared::cluster', 'generic')[generic]} {rank}", "load", 0, rank, generic)
    for cluster, rank in ((0, 0), (0, 1), (1, 1), (2, 1), (2, 2), (2, 255), (4, 4), (8, 7), (8, 8)):
        for how, does in HOWS.items():
            apart(f"reach {how} {cluster} {rank}", "reach", cluster, rank, text=REACH.replace("HOW", does))
    for cluster in (2, 4, 8):
        status, out = launched("plain", cluster, cluster, text=REACH.replace("HOW", ""))
        for cta, row in enumerate(out[: cluster * 4].reshape(cluster, 4).tolist()):
            print("plain", cluster, cta, f"{row[1]:x} returns {status} and {row[2] & 0xFFFFFFFF} and {row[2] >> 32}")
    print("cluster cta variable A B", HEAD)
    for cluster in (0, 1, 2, 4):
        status, out = launched("table", cluster)
        assert status == 0, status
        for cta, rows in enumerate(out.reshape(max(cluster, 1), len(PAIRS), 10)):
            for (a, b), row in zip(PAIRS, rows.tolist(), strict=True):
                print(cluster, cta, *(f"{x:x}" for x in (row[9], a, b, *row[:9])))
