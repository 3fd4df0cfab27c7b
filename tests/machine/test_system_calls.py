"""vprintf, malloc, free and __assertfail as kernels call them; what the GPU gives was read off an H100."""

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 format[10] = {37, 115, 32, 37, 115, 32, 37, 115, 10, 0};
.global .align 1 .b8 text[4] = {97, 46, 99, 0};
"""


def kernel(body: str) -> warpsim.Kernel:
    """A kernel with a pointer to its output in ``out``."""
    declared = ".reg .b64 out, p, q, x; .reg .b32 t, u, v; .reg .pred g;"
    return warpsim.load(
        f"{HEAD}.visible .entry k(.param .u64 o) {{ {declared} ld.param.u64 out, [o]; {body} ret; }}\n"
    )["k"]


def test_strings_from_every_space():
    """%s takes generic addresses: of shared and of local memory, and 0."""
    body = """.local .align 8 .b8 depot[32]; .shared .align 8 .b8 room[8]; .param .b64 f; .param .b64 a; .param .b32 r;
    mov.u32 t, %tid.x; add.u32 t, t, 65; st.shared.u8 [room], 83; st.shared.u8 [room+1], 0;
    st.local.u8 [depot+24], t; st.local.u8 [depot+25], 0;
    mov.u64 x, room; cvta.shared.u64 p, x; st.local.u64 [depot], p;
    mov.u64 x, depot; cvta.local.u64 q, x; add.u64 p, q, 24; st.local.u64 [depot+8], p; mov.u64 p, 0; st.local.u64 [depot+16], p;
    mov.u64 x, format; cvta.global.u64 p, x; st.param.b64 [f], p; st.param.b64 [a], q;
    call (r), vprintf, (f, a); ld.param.b32 v, [r]; st.global.u32 [out], v;"""
    count = np.zeros(1, np.uint32)

    result = kernel(body)((1,), (2,), (count,))

    assert result.stdout == "S A (null)\nS B (null)\n"
    assert count == 3


def allocation(size: str, to: int) -> str:
    """Allocate and say whether there was room."""
    return (
        f"{{ .param .b64 n; .param .b64 r; st.param.b64 [n], {size}; call (r), malloc, (n); ld.param.b64 p, [r]; }}"
        f"setp.ne.u64 g, p, 0; selp.u32 v, 1, 0, g; st.global.u32 [out+{to}], v;"
    )


FREE = "{ .param .b64 n; st.param.b64 [n], p; call free, (n); }"


def test_heap():
    """Six blocks of 1 MiB fit, or one of 7; what does not fit is null, an empty block is not."""
    six = "".join(allocation("1048576", 16 + 4 * k) for k in range(8))
    body = "".join(allocation(str(n), 4 * k) + FREE for k, n in enumerate((64, 1 << 32, 0, 7 << 20))) + six
    out = np.zeros(12, np.uint32)

    kernel(body)((1,), (1,), (out,))

    assert out.tolist() == [1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("leaking", [0, 8])
def test_many_threads_allocate_and_free(leaking):
    """Each thread has its own block, which can be had again when it is freed; freeing null does nothing. Forty threads take twenty
    times 50,000 bytes, of which so many free none.
    """
    forget = f"mov.u32 t, %tid.x; setp.lt.u32 g, t, {leaking}; selp.u64 p, 0, p, g;"
    loop = f"mov.u32 u, 0; L: {allocation('50000', 4)} {forget} {FREE} add.u32 u, u, 1; setp.lt.u32 g, u, 20; @g bra L;"
    out = np.zeros(2, np.uint32)
    kernel(loop + allocation("16", 0))((1,), (40,), (out,), checks="none")

    assert out.tolist() == [int(not leaking)] * 2  # 3,680 bytes are left for forty blocks of 16 + 256


def test_free_of_foreign_memory():
    """free takes only what malloc gave."""
    with pytest.raises(warpsim.ExecutionError, match="which malloc did not return"):
        kernel("mov.u64 p, out;" + FREE)((1,), (1,), (np.zeros(1, np.uint32),))


def test_assertion():
    """The text that CUDA prints: file, line, function, block and thread."""
    call = "st.param.b64 [m], p; st.param.b64 [f], p; st.param.b32 [l], 7; st.param.b64 [n], p; st.param.b64 [s], 1;"
    body = f"""mov.u64 x, text; cvta.global.u64 p, x; mov.u32 t, %tid.x; mov.u32 u, %tid.y;
    mad.lo.u32 t, u, 4, t; setp.lt.u32 g, t, 5; @g bra DONE;
    mov.u32 t, %ctaid.x; setp.eq.u32 g, t, 0; @g bra DONE;
    {{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s; {call}
    call __assertfail, (m, f, l, n, s); }} DONE: """

    with pytest.raises(warpsim.ExecutionError) as error:
        kernel(body)((2,), (4, 2), (np.zeros(1, np.uint32),))

    assert error.value.findings[0].rule == "assert"
    assert "a.c:7: a.c: block: [1,0,0], thread: [1,1,0] Assertion `a.c` failed." in str(error.value)


def test_special_registers():
    """%nwarpid is what an SM holds; the system's 1,024 bytes count in %aggr_smem_size; parameters have a space of their own."""
    names = ("nwarpid", "aggr_smem_size", "reserved_smem_offset_end", "reserved_smem_offset_cap", "total_smem_size")
    body = "".join(f"mov.u32 v, %{name}; st.global.u32 [out+{4 * k}], v;" for k, name in enumerate(names))
    body += ".shared .b8 room[100]; st.shared.u8 [room], 1; mov.u64 x, o; cvta.param.u64 x, x;"
    for k, space in enumerate(("global", "const", "param", "shared")):
        body += f"isspacep.{space} g, x; selp.u32 v, 1, 0, g; st.global.u32 [out+{20 + 4 * k}], v;"
    out = np.zeros(9, np.uint32)
    text = f"{HEAD.replace('8.0', '8.3')}.visible .entry k(.param .u64 o) {{ .reg .b64 out, x; .reg .b32 v; .reg .pred g; ld.param.u64 out, [o]; {body} ret; }}\n"

    warpsim.load(text)["k"]((1,), (35,), (out,), shared_mem=300)

    assert out.tolist() == [64, 1424, 288, 1024, 512, 1, 0, 1, 0]


def test_memory_reserved_for_the_system():
    """Libraries find it by special registers (cooperative groups keep barriers of tiles there), written, and beside the kernel's own."""
    body = """.shared .align 8 .b8 room[8]; .reg .b32 system, mine, old;
        mov.u32 system, %reserved_smem_offset_1; mov.u32 mine, room;
        st.shared.u32 [mine], 7; st.shared.u32 [more+4], 9; bar.sync 0;
        atom.shared.add.u32 old, [system+284], 1; bar.sync 0;
        ld.shared.u32 v, [system+284]; st.global.u32 [out], v;
        ld.shared.u32 v, [mine]; st.global.u32 [out+4], v;
        ld.shared.u32 v, [more+4]; st.global.u32 [out+8], v;
        mov.u32 v, %total_smem_size; st.global.u32 [out+12], v;"""
    out = np.zeros(4, np.uint32)
    head = HEAD.replace("8.0", "8.3") + ".extern .shared .align 4 .b8 more[];"
    text = (
        f"{head}.visible .entry k(.param .u64 o) {{ .reg .b64 out; .reg .b32 v; ld.param.u64 out, [o]; {body} ret; }}\n"
    )
    one = warpsim.load(text)["k"]

    one((3,), (35,), (out,), shared_mem=8)
    assert out.tolist() == [35, 7, 9, 128]
    one((1,), (1,), (out,), shared_mem=227 * 1024 - 16)
    with pytest.raises(warpsim.ExecutionError, match="is outside the 1044 bytes"):
        one((1,), (1,), (out,), shared_mem=4)


def test_memory_reserved_for_the_system_in_a_snippet():
    """The shared array of a snippet has the content that was given, and is returned."""
    result = warpsim.run(
        "mov.u32 %r1, %reserved_smem_offset_begin; st.shared.u32 [%r1], 5; ld.shared.u32 %r2, [smem]; st.shared.u32 [smem+4], %r2;",
        shared=np.array([3, 4], np.uint32),
    )

    assert (result.registers["%r2"] == 3).all()
    assert result.shared.view(np.uint32)[:2].tolist() == [3, 3]
