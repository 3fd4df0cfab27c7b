"""Inlined calls in the stack, CUDA code in list, types in words: at the prompt, by line information and by debug information."""

import pytest

from ring_kernel import KERNELS, Talk

SOURCE = (KERNELS / "ring.cu").read_text().split("\n")


@pytest.fixture(scope="module", params=["ring.ptx", "ring_debug.ptx"])
def tap(request):
    """A dialogue where `tap`, which is inlined in `sum`, which is inlined in the kernel, multiplies."""
    made = Talk(request.param)
    made("until ring.cu:25")
    return made


def rows(*numbers, here):
    """Lines of the CUDA file as ``list`` shows them."""
    lines = [f"{'>' if n == here else ' '}{n:5}  {SOURCE[n - 1]}".rstrip() for n in range(numbers[0], numbers[-1] + 1)]
    return "\n".join(lines).rstrip("\n")


def test_inlined_calls(tap):
    """The stack has the calls that were inlined, each with the line of its call."""
    calls = tap.session.where()

    assert [(c.function, c.source[1], c.inlined) for c in calls] == [
        ("tap", 25, True),
        ("sum", 30, True),
        ("_Z7stencilPKfPfi4Step", 61, False),
    ]
    assert [line.split(":")[0] for line in tap("bt").splitlines()] == [
        f"#0  tap, line {calls[0].line} at ring.cu",
        f"#1  sum, line {calls[0].line} at ring.cu",
        f"#2  stencil, line {calls[0].line} at ring.cu",
    ]


def test_up_and_down(tap):
    """Frames are selected one call at a time; list shows the line of each."""
    assert tap("frame 0", "list") == rows(20, 30, here=25)
    assert tap("up", "list") == rows(25, 35, here=30)
    assert tap("up", "list") == rows(56, 66, here=61)
    assert tap("up") == "no frame 3; frames: 0 to 2"
    assert tap("down").startswith("#1  sum, ")
    assert tap("frame 0").startswith("#0  tap, ")


def test_list(tap):
    """A line, a range, what follows, what stands before, a file, a function."""
    tap("frame 0")

    assert tap("list 12") == rows(7, 17, here=25)
    assert tap("list") == rows(18, 28, here=25)
    assert tap("list -") == rows(7, 17, here=25)
    assert tap("list 24,26") == rows(24, 26, here=25)
    assert tap("list ring.cu:3") == rows(1, 11, here=25)
    assert tap("list ring.cu:68,69") == rows(68, 69, here=25)
    assert tap("list stencil") == rows(35, 45, here=25)
    assert tap("list tap").startswith(rows(19, 19, here=25))
    assert tap("list 300") == "there is no line 300: ring.cu has 70 lines"
    assert tap("list nowhere.cu:3") == "cannot read nowhere.cu"
    assert f"{tap.session.stop.line}  " in tap("disassemble")
    assert ".visible .entry" not in tap("disas twice")


def test_a_stop_shows_the_calls():
    """A stop in inlined code shows the CUDA line and the calls."""
    talk = Talk("ring.ptx")
    assert talk("break tap").startswith("Breakpoint 1 at tap: lines ")
    stopped = talk("c").splitlines()

    assert stopped[1].startswith("stencil, CTA (0,0,0), warp 0, lane 0;")
    assert stopped[2:4] == [
        "  ring.cu:24: float w = table::weights[k];",
        "    tap, inlined in sum at ring.cu:30, in stencil at ring.cu:61",
    ]
    assert talk("delete", "break twice", "c").splitlines()[1].startswith("twice, CTA")
    assert talk("bt").splitlines()[1].startswith("#1  stencil, line")


def test_set_in_an_inlined_frame():
    """A variable of the function around an inlined call can be changed there."""
    talk = Talk("ring_debug.ptx")
    talk("until ring.cu:25", "up", "set total = 3", "set n = 1")

    assert talk("p total") == "total = 3.0 in all lanes"
    assert talk("down", "p w") == "w = 1.0 in all lanes"


def test_types():
    """Types with debug information, in words of C."""
    talk = Talk("ring_debug.ptx")
    talk("until ring.cu:61")

    assert talk("whatis coef") == "type = float [7]"
    assert talk("whatis square[1]") == "type = double [4]"
    assert talk("whatis x") == "type = const float *"
    assert talk("whatis &ring[1]") == "type = Slot *"
    assert talk("whatis t + 1") == "type = long long"
    assert talk("ptype ring") == "type = struct Slot {\n    int head;\n    float a[4];\n    unsigned char flag;\n} [2]"
    assert talk("ptype struct Step") == talk("ptype step")
    assert talk("whatis nothing").startswith("no register, variable or parameter nothing")
    assert talk("info types") == "  Slot, 24 bytes\n  Step, 16 bytes"
    assert "  Slot ring[2], in _ZZ7stencilPKfPfi4StepE4ring, 48 bytes" in talk("info scope ring.cu:61").splitlines()


def test_values_as_text():
    """Structs, characters and pointers as gdb prints them."""
    talk = Talk("ring_debug.ptx")
    talk("until ring.cu:61")

    assert talk("p ring[1]") == "ring[1] = {head = -6, a = {10.0, 11.0, 12.0, 13.0}, flag = 98 'b'}"
    assert talk("p/x ring[1].flag") == "ring[1].flag = 0x62"
    assert talk("p step").startswith("step = {scale = 0.5, shift = -7, bias = 0x7f")
    assert (
        talk("p ring[t & 1].flag").splitlines()[1]
        == "  lane  0: 97 'a' 98 'b' 97 'a' 98 'b' 97 'a' 98 'b' 97 'a' 98 'b'"
    )
    assert (
        talk("p ring[t & 1]").splitlines()[2] == "  lane  1: {head = -6, a = {10.0, 11.0, 12.0, 13.0}, flag = 98 'b'}"
    )


def test_lists_of_variables():
    """Parameters and variables with their types; what is known from accesses only is said."""
    talk = Talk("ring_debug.ptx")
    talk("until ring.cu:61")
    lines = talk("info locals").splitlines()

    assert "  int i = 0, 1, 2, 3 .. 31" in lines
    assert "  __shared__ float coef[7] = {0.5, 1.0, 1.5, 2.0, 1.5, 1.0, 0.5}" in lines
    assert "  __device__ short table::grid2[2][3] = {{1, 2, 3}, {-4, -5, -6}}" in lines
    assert [line.split(" = ")[0] for line in talk("info args").splitlines()] == ["  const float *x", "  float *y", "  int n", "  Step step"]  # fmt: skip

    talk = Talk("ring.ptx")
    assert talk("whatis coef") == "type = float [7]  (from the accesses of the module, .f32)"
    assert talk("info variables weights").splitlines() == [
        "  __constant__ float table::weights[7] = {1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0}",
        "  (The types of table::weights are known from accesses only.)",
    ]
    assert talk("info functions twi").startswith("  twice, line ")


def test_completion():
    """Tab offers variables, functions, CUDA files and their lines that have code."""
    talk = Talk("ring_debug.ptx")
    talk("until ring.cu:61")

    assert talk("complete print ri") == "print ring"
    assert talk("complete print table::w") == "print table::weights"
    assert talk("complete break st") == "break stencil"
    assert talk("complete break ring") == "break ring.cu:"
    lines = [int(line.rpartition(":")[2]) for line in talk("complete break ring.cu:6").splitlines()]
    assert lines == [60, 61, 62, 64, 65, 66, 67, 69]
