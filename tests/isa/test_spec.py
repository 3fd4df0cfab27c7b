"""Syntax blocks, forms, and the choice of a form by a spelling."""

import importlib
import subprocess
import sys

import pytest

from warpsim.errors import InternalError
from warpsim.isa import matching, spec, syntax
from warpsim.isa.matching import candidates, satisfies
from warpsim.isa.spec import instruction
from warpsim.types import TYPES


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """Each test declares into a registry of its own."""
    empty = spec.Registry()
    monkeypatch.setattr(spec, "REGISTRY", empty)
    monkeypatch.setattr(matching, "REGISTRY", empty)
    matching._candidates.cache_clear()
    yield
    matching._candidates.cache_clear()


def declare_add():
    """Declare the sample of the idiom."""

    @instruction(
        """
        add.type       d, a, b;
        add{.sat}.s32  d, a, b;      // .sat applies only to .s32
        .type = { .u16, .u32, .s32 };
        """,
        anchor="add",
    )
    def add(op, a, b, *, memory):
        """d = a + b."""
        return a + b


def test_idiom():
    """A block gives forms with destinations, sources, ports and types."""
    declare_add()
    (found,) = candidates("add", ("u32",))

    assert found.form.n_dest == 1
    assert [o.spec.name for o in found.operands] == ["d", "a", "b"]
    assert [o.type for o in found.operands] == [TYPES["u32"]] * 3
    assert found.form.ports == {"memory"}
    assert found.op.text == "add.u32"
    assert found.op.type is TYPES["u32"]


def test_op_defaults():
    """A slot of another line of the block is absent; a name of no slot is an error."""
    declare_add()
    op = candidates("add", ("u32",))[0].op

    assert op.sat is False
    with pytest.raises(AttributeError):
        op.nonsense  # noqa: B018
    with pytest.raises(AttributeError):
        op.sat = True


def test_any_order():
    """Modifiers may come in any order, and only fitting ones match."""
    declare_add()

    assert candidates("add", ("s32", "sat"))[0].op.sat is True
    assert candidates("add", ("sat", "u32")) == ()
    assert candidates("add", ("u32", "u32")) == ()
    assert candidates("sub", ("u32",)) == ()


def test_types_keep_their_order():
    """Of two slots with the same values the first takes the first word."""

    @instruction(
        "cvt{.rnd}.dtype.atype d, a; .dtype = .atype = { .u32, .f32 }; .rnd = { .rn }",
        anchor="cvt",
        types={"d": "dtype", "a": "atype"},
    )
    def cvt(op, a):
        return a

    (found,) = candidates("cvt", ("u32", "rn", "f32"))

    assert (found.op.dtype, found.op.atype) == (TYPES["u32"], TYPES["f32"])
    assert [o.type for o in found.operands] == [TYPES["u32"], TYPES["f32"]]


def test_optional_operands():
    """What may be left out makes a form of its own, and its place is filled with None."""

    @instruction("cp.go [dst], [src]{, size}{, mask};", anchor="cp", types={"size": ".u32", "mask": ".u16"})
    def cp(op, dst, src, size=None, mask=None):
        return (dst, src, size, mask)

    found = candidates("cp", ("go",))
    only_mask = next(c for c in found if [o.spec.name for o in c.operands] == ["dst", "src", "mask"])

    assert len(found) == 4
    assert only_mask.form.function(only_mask.op, 1, 2, 3) == (1, 2, None, 3)


def test_cache_policy_goes_with_its_hint():
    """The operand cache_policy stands exactly where .L2::cache_hint does."""

    @instruction(
        "ld{.hint}.type d, [a]{, cache_policy}; .hint = { .L2::cache_hint }; .type = { .b32 };",
        anchor="ld",
        types={"cache_policy": ".b64"},
    )
    def ld(op, address, cache_policy=None):
        return address

    assert [len(c.operands) for c in candidates("ld", ("b32",))] == [2]
    assert [len(c.operands) for c in candidates("ld", ("L2::cache_hint", "b32"))] == [3]


def test_operand_notation():
    """Pairs, negated predicates, addresses with coordinates and sinks are read."""
    (line,) = syntax.parse_block("x.y d{|p}, {!}c, [a, b], _, {e0, e1};")
    pair, negated, address, sink, vector = line.operands

    assert (pair.name, pair.second, pair.second_optional) == ("d", "p", True)
    assert (negated.name, negated.negatable) == ("c", True)
    assert (address.kind, address.extra) == ("address", ("b",))
    assert sink.kind == "sink"
    assert (vector.name, vector.count) == ("e", 2)


def test_type_rules():
    """Operand types follow slots, widths, bits and functions."""

    @instruction(
        "mul.wide.type d, a, b, c, e, f; .type = { .s16, .s32 };",
        anchor="mul",
        types={"d": "2*type", "b": "bits", "c": "type/2", "e": ".pred", "f": lambda op: TYPES["f64"]},
    )
    def mul(op, a, b, c, e, f):
        return a

    (found,) = candidates("mul", ("wide", "s32"))

    assert [o.type.name for o in found.operands] == ["s64", "s32", "b32", "b16", "pred", "f64"]


def test_gates_and_legal():
    """What a spelling needs and why it is illegal is known with the candidate."""

    @instruction(
        "op.type d, a; .type = { .f32, .bf16 };",
        anchor="op",
        needs=(None, (6, 0)),
        gates={"bf16": (90, (7, 8))},
        legal=lambda op: "not today" if op.type.bits == 32 else None,
    )
    def op_(op, a):
        return a

    (plain,) = candidates("op", ("f32",))
    (half,) = candidates("op", ("bf16",))

    assert plain.illegal == "not today"
    assert half.gates == ((None, (6, 0)), (90, (7, 8)))


@pytest.mark.parametrize(
    ("need", "target", "expected"),
    [
        (80, "sm_75", False),
        (80, "sm_90a", True),
        ("90a", "sm_90", False),
        ("90a", "sm_90a", True),
        ("90a", "sm_100a", False),
        ("100f", "sm_103a", True),
        ("100f", "sm_100", False),
        ("100f", "sm_120a", False),
        (("100a", "120a"), "sm_120a", True),
    ],
)
def test_satisfies(need, target, expected):
    """A number holds from that capability on, a suffix a for one target, f for a family."""
    assert satisfies((need, None), target, (9, 0)) is expected


def test_satisfies_version():
    """A version is a minimum."""
    assert not satisfies((None, (7, 8)), "sm_90", (7, 7))
    assert satisfies((None, (7, 8)), "sm_90", (7, 8))


def test_defects_of_a_declaration():
    """A block that names what the function does not take is a defect of ours."""

    @instruction("op.u32 d, [a], b;", anchor="op")
    def op_(op, wrong):
        return wrong

    with pytest.raises(InternalError):
        candidates("op", ("u32",))[0].form.function  # noqa: B018


def test_nearest():
    """The nearest form of an unknown spelling is named."""
    declare_add()

    assert matching.nearest("add", ("sat", "u32")) in ("add.type d, a, b", "add{.sat}.s32 d, a, b")
    assert matching.nearest("ad", ()) == "add.type d, a, b"


RARE = """
import importlib, pkgutil, sys
from warpsim import isa
from warpsim.isa.spec import REGISTRY, instruction

def imported():
    return [name for name in ("video", "wmma", "tcgen05_mma") if f"warpsim.isa.{name}" in sys.modules]

print(imported(), {"vmad", "wmma", "tcgen05"} <= {*REGISTRY}, "wmma" in REGISTRY, len(REGISTRY) == len([*REGISTRY]))
print(len(REGISTRY["vmad"]) > 0, imported(), REGISTRY.revision == isa.DECLARED)
names, found = [*REGISTRY], {}
for module in pkgutil.iter_modules(isa.__path__):
    importlib.import_module(f"{isa.__name__}.{module.name}")
for root, forms in REGISTRY.items():
    found[root] = {form.meaning.__module__ for form in forms}
print(names == [*found] == sorted(names), all(found.values()), REGISTRY.revision == isa.DECLARED)
rare = {root: {f"warpsim.isa.{m}" for m in modules.split()} for roots, modules in isa._RARE for root in roots.split()}
print([root for root in rare if found[root] != rare[root]])
print(set().union(*rare.values()) & set().union(*(found[root] for root in found.keys() - rare.keys())))
"""
OTHERS = """
from warpsim import isa
from warpsim.isa.spec import REGISTRY, instruction

@instruction("wmma.new.u32 d, a;")
def new(op, a):
    return a

print([form.meaning is new for form in REGISTRY["wmma"]][-2:], REGISTRY.revision == isa.DECLARED)
"""
FIRST = """
import importlib, sys
from warpsim.isa.spec import REGISTRY

importlib.import_module(sys.argv[1])
print([f"{form.meaning.__module__} {form.syntax}" for form in REGISTRY["tcgen05"]])
"""


def told(program, *arguments):
    """The lines that a process of its own prints."""
    return subprocess.check_output([sys.executable, "-c", program, *arguments], text=True).splitlines()


def test_opcodes_of_few_programs():
    """They are known by name, in whatever order they are looked up. Their modules, which alone declare them and nothing else, are
    imported then."""
    assert told(RARE) == ["[] True True True", "True ['video'] True", "True True True", "[]", "set()"]


def test_opcodes_of_few_programs_that_others_declare_too():
    """What others declare comes behind what is declared here."""
    assert told(OTHERS) == ["[False, True] False"]


@pytest.mark.parametrize("module", ["tensor_copies", "tensor_memory"])
def test_forms_have_the_same_numbers_whatever_is_imported_first(module):
    """Programs are kept with them, for other processes."""
    assert told(FIRST, f"warpsim.isa.{module}") == told(FIRST, "warpsim.isa.mma")


def test_an_opcode_that_another_thread_looks_up_is_known():
    """Its modules may be imported between two looks."""

    class Asked(dict):
        def __contains__(self, name):
            found = super().__contains__(name)
            if registry.later.pop(name, None):
                registry._declared[name] = []
            return found

    registry = spec.Registry()
    registry._declared, registry.later = Asked(), Asked(op=("module",))
    assert "op" in registry
    assert "op" in registry


def test_a_module_whose_import_ended_early_is_imported_again(tmp_path, monkeypatch):
    """By Ctrl-C, say: what it had declared until then is declared once."""
    source = "from warpsim.isa import spec\n@spec.instruction('op.u32 d, a;')\ndef op(op, a): ...\n"
    (tmp_path / "ended_early.py").write_text(f"{source}import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec.REGISTRY.later["op"] = ("ended_early",)
    with pytest.raises(ImportError):
        spec.forms("op")
    (tmp_path / "nothing_of_this_name.py").touch()
    importlib.invalidate_caches()
    assert len(spec.forms("op")) == 1
    assert spec.REGISTRY.later == {}
