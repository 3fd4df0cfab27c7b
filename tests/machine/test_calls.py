"""Branches through tables, calls and returns: which threads go where, and what they take with them.

Expected values are sums of the threads' own numbers, by hand.
"""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head()
REGISTERS = ".reg .b32 t, u, v, w; .reg .b64 o, a, f; .reg .pred p, q; .reg .b16 h; .reg .b8 c;"


def launch(body, functions="", threads=64, grid=1, size=64, target="sm_80", **options):
    """What each thread stores of ``v``; ``t`` is the thread's number, ``o`` the address of its word."""
    head = HEAD.replace("8.0", "8.3").replace("sm_80", target)
    text = f"""{head}{functions}
.visible .entry k(.param .u64 out) {{ {REGISTERS}
ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4; add.u64 o, o, a; mov.u32 v, 0;
{body}
END: st.global.u32 [o], v; ret; }}
"""
    out = np.zeros(size, np.uint32)
    result = warpsim.load(text)["k"](grid, threads, (out,), engine="interpreter", **options)
    return out.tolist(), result


ADD = ".func (.reg .b32 r) add(.reg .b32 x, .reg .b32 y) { add.u32 r, x, y; ret; }\n"
MEMORY = """.func (.param .b32 r) add(.param .b32 x, .param .b32 y)
{ .reg .b32 a, b; ld.param.u32 a, [x]; ld.param.u32 b, [y]; add.u32 a, a, b; st.param.b32 [r], a; ret; }
"""
TWO = """.func (.reg .b32 r) twice(.reg .b32 x) { add.u32 r, x, x; ret; }
.func (.reg .b32 r) next(.reg .b32 x) { add.u32 r, x, 1; ret; }
"""


@pytest.mark.parametrize("function", [ADD, MEMORY], ids=["registers", "memory"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("call (v), add, (t, 7);", [t + 7 for t in range(64)]),
        ("call (v), add, (7, t);", [t + 7 for t in range(64)]),
        ("call (v), add, (3, 4);", [7] * 64),
        ("call (v), add, (t, t); call (v), add, (v, -1);", [2 * t - 1 & 0xFFFFFFFF for t in range(64)]),
        ("setp.lt.u32 p, t, 10; @p call (v), add, (t, 1);", [t + 1 if t < 10 else 0 for t in range(64)]),
        ("setp.lt.u32 p, t, 10; @!p call (v), add, (t, 1);", [0 if t < 10 else t + 1 for t in range(64)]),
        ("and.b32 u, t, 1; setp.eq.u32 p, u, 1; @p call (v), add, (t, u); @!p call (v), add, (t, 100);", [t + 1 if t & 1 else t + 100 for t in range(64)]),
        ("and.b32 u, t, 5; setp.eq.u32 p, u, 5; @p bra END; call (v), add, (t, 2); mov.u32 w, v; call (v), add, (w, w);", [0 if t & 5 == 5 else 2 * t + 4 for t in range(64)]),
    ],
)  # fmt: skip
def test_arguments_and_results(function, body, expected):
    """Registers and constants go in, sums come back, to the threads that called and to no others."""
    assert launch(body, function)[0] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # space of the caller's frame as arguments and results of registers and of memory
        ("{ .param .b32 i; .param .b32 j; st.param.b32 [i], t; call (j), m, (i, 5); ld.param.b32 v, [j]; }", [t + 5 for t in range(64)]),
        ("{ .param .b32 i; st.param.b32 [i], t; call (v), m, (i, i); }", [2 * t for t in range(64)]),
        ("{ .param .b32 i; st.param.b32 [i], t; call (v), r, (i, 6); }", [t + 6 for t in range(64)]),
        ("and.b32 u, t, 3; setp.eq.u32 p, u, 0; { .param .b32 i; st.param.b32 [i], t; @p call (v), r, (i, i); }", [2 * t * (t % 4 == 0) for t in range(64)]),
        # only as many bits as the parameter has
        ("{ .param .b8 i; st.param.b8 [i], t; call (v), b, (i); }", [t % 256 for t in range(64)]),
        ("cvt.u16.u32 h, t; call (v), s, (h);", list(range(64))),
        ("call (v), s, (0xFFFE);", [0xFFFE] * 64),
        # results that nobody takes
        ("call n, (t); mov.u32 v, 5;", [5] * 64),
    ],
)  # fmt: skip
def test_parameters_of_all_kinds(body, expected):
    """A function's parameters are registers or memory, whatever the caller has."""
    functions = """.func (.param .b32 z) m(.param .b32 x, .param .b32 y)
{ .reg .b32 a, b; ld.param.u32 a, [x]; ld.param.u32 b, [y]; add.u32 a, a, b; st.param.b32 [z], a; ret; }
.func (.reg .b32 z) r(.reg .b32 x, .reg .b32 y) { add.u32 z, x, y; ret; }
.func (.reg .b32 z) b(.param .b8 x) { .reg .b32 a; ld.param.u8 a, [x]; mov.b32 z, a; ret; }
.func (.reg .b32 z) s(.reg .b16 x) { cvt.u32.u16 z, x; ret; }
.func n(.reg .b32 x) { ret; }
"""
    assert launch(body, functions)[0] == expected


@pytest.mark.parametrize("wide", [False, True], ids=["one way", "each its own"])
def test_calls_through_a_register(wide):
    """Threads go into the functions whose addresses they hold, uniformly or each into its own."""
    choose = "and.b32 u, t, 3; setp.eq.u32 p, u, 0;" if wide else "setp.lt.u32 p, t, 1000;"
    body = f"{choose} mov.u64 a, twice; mov.u64 f, next; @p mov.u64 f, a; call (v), f, (t), proto;"
    found, _ = launch(f"proto: .callprototype (.reg .b32 _) _ (.reg .b32 _); {body}", TWO)

    assert found == [2 * t if t % 4 == 0 or not wide else t + 1 for t in range(64)]


def test_threads_that_do_not_call_go_on():
    """Under a guard, threads call through registers, and the others do not."""
    body = """proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    and.b32 u, t, 1; setp.eq.u32 p, u, 0; mov.u64 f, next; mov.u64 a, twice; setp.lt.u32 q, t, 8; @q mov.u64 f, a;
    @p call (v), f, (t), proto; add.u32 v, v, 1;"""
    assert launch(body, TWO)[0] == [1 + (0 if t & 1 else 2 * t if t < 8 else t + 1) for t in range(64)]


@pytest.mark.parametrize("offset", [-16, -1, 1, 8, 15, 48, 1 << 40])
def test_an_address_of_no_function(offset):
    """Four functions lie side by side, the last of them a kernel; what is before, between and behind them is none: threads that
    go there end.
    """
    functions = TWO + ".func (.reg .b32 r) last(.reg .b32 x) { mov.u32 r, x; ret; }\n"
    body = f"""proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    mov.u64 f, twice; mov.u64 a, next; min.u64 f, f, a; mov.u64 a, last; min.u64 f, f, a; mov.u64 a, k; min.u64 f, f, a; mov.u64 a, f;
    and.b32 u, t, 1; setp.eq.u32 p, u, 1; mov.u64 f, twice; @p add.u64 f, a, {offset if offset != 48 else 64};
    mov.u32 v, 77; st.global.u32 [o], v;
    call (v), f, (t), proto;"""
    found, result = launch(body, functions, on_finding="collect")

    assert [f.rule for f in result.findings] == ["out-of-bounds"]
    assert "which is not a function" in result.findings[0].message
    assert result.findings[0].lanes == tuple(range(1, 32, 2))
    assert found == [77 if t & 1 else 2 * t for t in range(64)]


def test_a_function_that_nobody_provides():
    """Its address may not be taken, as ptxas says of a whole program."""
    body = "P: .callprototype _ (.param .b32 _); mov.u64 f, nobody; call f, (t), P;"
    with pytest.raises(warpsim.PtxError, match="linkage: nobody has no body in this module"):
        launch(body, ".extern .func nobody(.param .b32 x);\n")


def test_a_function_of_the_system_has_no_address():
    """The place behind the last function is none, also where a function without a body is declared."""
    functions = TWO + ".extern .func (.param .b32 r) vprintf(.param .b64 x, .param .b64 y);\n"
    body = """proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    mov.u64 f, twice; mov.u64 a, next; max.u64 f, f, a; mov.u64 a, k; max.u64 f, f, a; add.u64 f, f, 16; call (v), f, (t), proto;"""
    with pytest.raises(warpsim.ExecutionError, match=r"call through 0x[0-9a-f]+, which is not a function"):
        launch(body, functions)


def test_a_kernel_is_no_function():
    """Its address may be taken, to be launched; a call of it is named."""
    body = "P: .callprototype _ (.param .b32 _); mov.u64 f, other; call f, (t), P;"
    with pytest.raises(warpsim.ExecutionError, match=r"call through 0x[0-9a-f]+, which is not a function"):
        launch(body, ".visible .entry other(.param .b32 x) { ret; }\n")


def nested(depth):
    """A function that calls itself ``depth`` times more."""
    return f""".func (.reg .b32 r) down(.reg .b32 n);
.func (.reg .b32 r) down(.reg .b32 n) {{ .reg .pred p; .reg .b32 m; setp.eq.u32 p, n, {depth}; mov.u32 r, n; @p ret;
add.u32 m, n, 1; call (r), down, (m); add.u32 r, r, 1; ret; }}
"""


def test_the_depth_of_calls():
    """512 calls inside of one another come back; one more is too deep."""
    assert launch("call (v), down, (0);", nested(511), threads=1, size=1)[0] == [1022]
    with pytest.raises(warpsim.ExecutionError, match="calls nest deeper than 512"):
        launch("call (v), down, (0);", nested(512), threads=1, size=1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("brx.idx t, T;", [(1, 10, 100, 1000)[t] for t in range(4)]),
        ("mov.u32 u, 2; brx.idx u, T;", [100] * 4),
        ("brx.idx 3, T;", [1000] * 4),
        ("setp.ne.u32 p, t, 1; @p brx.idx 1, T; mov.u32 v, 5;", [10, 5, 10, 10]),
        ("setp.lt.u32 p, t, 2; @p brx.idx t, T; mov.u32 v, 5;", [1, 10, 5, 5]),
        ("and.b32 u, t, 1; brx.idx u, T;", [1, 10, 1, 10]),
    ],
)
def test_tables(body, expected):
    """Each thread goes where the table sends it, those without an index of their own together."""
    labels = "T: .branchtargets A, B, C, D; "
    rest = (
        " bra END; A: mov.u32 v, 1; bra END; B: mov.u32 v, 10; bra END; C: mov.u32 v, 100; bra END; D: mov.u32 v, 1000;"
    )
    assert launch(labels + body + rest, threads=4, size=4)[0] == expected


@pytest.mark.parametrize(
    ("index", "wrong"), [("t", [3]), ("5", [0, 1, 2, 3]), ("-1", [0, 1, 2, 3]), ("3", [0, 1, 2, 3])]
)
def test_an_index_beyond_the_table(index, wrong):
    """Threads whose index has no target end, and are named; the others go on."""
    body = f"""T: .branchtargets A, B, C; mov.u32 v, 9; st.global.u32 [o], v; mov.u32 u, {index}; brx.idx u, T;
    A: mov.u32 v, 1; bra END; B: mov.u32 v, 10; bra END; C: mov.u32 v, 100;"""
    found, result = launch(body, threads=4, size=4, on_finding="collect")

    assert [f.message.partition(": ")[2] for f in result.findings] == [
        f"the index {'3' if index == 't' else int(index) & 0xFFFFFFFF} has no target in a list of 3"
    ]
    assert list(result.findings[0].lanes) == wrong
    assert found == [9 if t in wrong else (1, 10, 100)[t] for t in range(4)]


def test_a_call_that_ends_a_kernel():
    """Behind its last call a kernel has nothing to return to: threads end there, those that do not call, too."""
    functions = ".func put(.reg .b64 x, .reg .b32 y) { st.global.u32 [x], y; ret; }\n"
    text = f"""{HEAD}{functions}
.visible .entry k(.param .u64 out) {{ {REGISTERS}
ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4; add.u64 o, o, a; setp.lt.u32 p, t, 40; @p call put, (o, t); }}
"""
    for changed in (text, text.replace("@p", "")):
        out = np.full(64, 99, np.uint32)
        result = warpsim.load(changed)["k"](1, 64, (out,), engine="interpreter")
        assert out.tolist() == [t if t < 40 or "@p" not in changed else 99 for t in range(64)]
        assert result.findings == ()


BRACES = [
    ("mov.u32 r, 0; L: add.u32 r, r, 1; setp.lt.u32 p, r, n; @p bra L;", lambda t: max(t, 1)),
    ("call (r), one, (n);", lambda t: t + 1),
    ("mov.u32 r, 5; setp.eq.u32 p, n, 2; @p call (r), one, (n);", lambda t: 3 if t == 2 else 5),
    ("mov.u32 r, 5; setp.eq.u32 p, n, 2; @p ret;", lambda t: 5),
    ("mov.u32 r, 6; setp.eq.u32 p, n, 2; @!p bra L; mov.u32 r, 7; L:", lambda t: 7 if t == 2 else 6),
    ("add.u32 r, n, 9;", lambda t: t + 9),
]


@pytest.mark.parametrize("argument", ["t", "2", "3"])
@pytest.mark.parametrize(("body", "expected"), BRACES)
def test_a_function_returns_at_its_closing_brace(body, expected, argument):
    """Threads that come to it go back to the caller, whatever instruction is the last (ptxas takes each)."""
    functions = f""".func (.reg .b32 r) one(.reg .b32 n) {{ add.u32 r, n, 1; ret; }}
.func (.reg .b32 r) last(.reg .b32 n) {{ .reg .pred p; {body} }}
"""
    found, _ = launch(f"call (v), last, ({argument}); add.u32 v, v, 100;", functions, threads=8, size=8)

    assert found == [expected(t if argument == "t" else int(argument)) + 100 for t in range(8)]


VPRINTF = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n.global .align 1 .b8 text[3] = {37, 100, 0};\n"
"""%d"""


@pytest.mark.parametrize(
    "guard", ["", "setp.lt.u32 p, t, 2; @p ", "setp.lt.u32 p, t, 9; @p ", "setp.gt.u32 p, t, 9; @p "]
)
def test_arguments_in_registers_of_the_runtime(guard):
    """printf takes its arguments from registers, too, and gives its result to one, in the threads that call it."""
    body = f""".local .align 8 .b32 l; st.local.u32 [l], t; mov.u64 a, l; cvta.local.u64 a, a; mov.u64 f, text; cvta.global.u64 f, f;
    mov.u32 v, 7; {guard} call (v), vprintf, (f, a);"""
    found, result = launch(body, VPRINTF, threads=4, size=4)
    printing = [t for t in range(4) if not guard or (t < 2 if ", 2;" in guard else "lt" in guard)]

    assert result.stdout == "".join(map(str, printing))
    assert found == [1 if t in printing else 7 for t in range(4)]


def test_a_constant_argument_of_the_runtime():
    """malloc of a size that is a constant gives each thread its own memory."""
    functions = ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
    body = "call (a), malloc, (16); st.global.u32 [a+12], t; bar.sync 0; ld.global.u32 v, [a+12];"
    assert launch(body, functions, threads=40, size=40)[0] == list(range(40))


@pytest.mark.parametrize("register", ["h", "c"])
@pytest.mark.parametrize("lanes", ["shared", "one"])
def test_narrow_addresses(register, lanes):
    """An address in a register of 8 or 16 bits is extended with zeros (ptxas takes it)."""
    width = 16 if register == "h" else 8
    body = f""".shared .align 4 .b32 s[64]; mov.u32 u, s; {"shl.b32 w, t, 2; add.u32 u, u, w;" if lanes == "shared" else ""}
    cvt.u{width}.u32 {register}, u; st.shared.u32 [{register}], t; ld.shared.u32 v, [{register}]; ld.shared.u32 w, [u]; add.u32 v, v, w;"""
    assert launch(body, threads=32, size=32)[0] == [2 * t if lanes == "shared" else 62 for t in range(32)]


def test_constants_of_128_bits():
    """A constant fills the low half (ptxas takes it); stores keep all 16 bytes."""
    body = ".reg .b128 z; .reg .b64 x, y; mov.b128 z, 0x123456789abcdef0; mov.b128 {x, y}, z; cvt.u32.u64 v, y; shr.u64 x, x, 32; cvt.u32.u64 u, x; add.u32 v, v, u;"
    assert launch(body, threads=1, size=1, target="sm_90")[0] == [0x12345678]


def test_memory_that_a_called_function_allocates():
    """alloca in a function gives each thread and each call its own bytes, and they are gone behind the call."""
    functions = """.func (.reg .b32 r) twice(.reg .b32 n) { .reg .b32 p, q; .reg .b64 a, b; .reg .b64 s, m;
mul.wide.u32 s, n, 4; add.u64 s, s, 4; alloca.u64 a, s, 8; st.local.u32 [a], n; alloca.u64 b, 16, 16; st.local.u32 [b], 1000;
ld.local.u32 p, [a]; ld.local.u32 q, [b]; add.u32 r, p, q; ret; }
.func (.reg .b32 r) outer(.reg .b32 n) { .reg .b32 p; .reg .b64 a; alloca.u64 a, 8, 8; st.local.u32 [a], n; call (r), twice, (n); ld.local.u32 p, [a];
call (r), twice, (r); add.u32 r, r, p; ret; }
"""
    found, _ = launch("call (v), outer, (t); call (v), twice, (v);", functions, threads=40, size=40, target="sm_80")
    assert found == [2 * t + 3000 for t in range(40)]


def test_loops_at_the_end_of_a_kernel():
    """A branch that is not taken at a kernel's end leaves it; threads that take it go on until they do not."""
    text = f"""{HEAD}
.visible .entry k(.param .u64 out) {{ {REGISTERS}
ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4; add.u64 o, o, a; mov.u32 v, 0;
L: add.u32 v, v, 1; st.global.u32 [o], v; setp.lt.u32 p, v, t; @p bra L; }}
"""
    out = np.zeros(64, np.uint32)
    warpsim.load(text)["k"](1, 64, (out,), engine="interpreter")

    assert out.tolist() == [max(t, 1) for t in range(64)]
