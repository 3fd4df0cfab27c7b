"""Matches an instruction's spelling to the forms that it may be, with types, limits and gates resolved.

`candidates` caches its results, so a module pays once per spelling.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

from warpsim.errors import InternalError
from warpsim.isa import syntax
from warpsim.isa.spec import REGISTRY, Each, Form, Gate, Limit, Op, OperandSpec, Target, chosen, plain
from warpsim.isa.traits import Traits, completed
from warpsim.records import frozen
from warpsim.types import TYPES, ScalarType


@frozen(eq=False)
class TypedOperand:
    """An operand of a `Candidate`: its spec with type, number of elements, limits and spaces resolved."""

    spec: OperandSpec
    type: ScalarType | None
    count: int | None
    limit: Limit | None
    spaces: frozenset[str] | None
    checked_as: ScalarType | None = None
    single: Target | None = None
    no_specials: Target | None = None
    register: bool = False
    relaxed: bool = False
    exact: bool = False
    bare: str | None = None
    limits: tuple[Limit, ...] = ()
    """The limits of a vector's elements."""
    among: ScalarType | None = None
    """The type as which the registers of a vector are compared, once its elements are known."""


class Candidate:
    """A form with its modifiers filled in, to check operands against.

    ``illegal`` is the reason why the form's ``legal`` rejects these modifiers; ``gates`` is what they require.
    """

    def __init__(
        self, form: Form, op: Op, operands: tuple[TypedOperand, ...], illegal: str | None, gates: tuple[Gate, ...]
    ) -> None:
        self.form, self.op, self.operands, self.illegal, self.gates = form, op, operands, illegal, gates
        self.traits = traits_of(form, op)


def candidates(root: str, modifiers: tuple[str, ...]) -> tuple[Candidate, ...]:
    """The forms whose slots these modifiers fill, in any order; element types and repeated classes keep their order."""
    return _candidates(root, modifiers, REGISTRY.revision)


@functools.cache
def _candidates(root: str, modifiers: tuple[str, ...], revision: int) -> tuple[Candidate, ...]:
    text = ".".join((root, *modifiers))
    words = _looked_at(root, modifiers)
    if not REPEATED.isdisjoint(words):
        words = tuple(w for i, w in enumerate(words) if w not in REPEATED or w not in words[:i])
    return tuple(
        _candidate(form, values, text, words)
        for form in REGISTRY.get(root, ())
        if form.pattern.words.issuperset(words)
        and (values := _fill(form.pattern.slots, words)) is not None
        and _named(root, form, values, words)
        and _hinted(form, words)
    )


REPEATED = frozenset({"NaN", "approx", "cc", "relu", "sat", "satfinite", "shiftamt", "sync", "uni"})
"""Modifiers that may be repeated."""
PASSED_OVER = tuple(
    frozenset(words.split())
    for words in (
        "finite infinite normal notanumber number subnormal",
        "global_address rank box_dim global_dim global_stride element_stride elemtype interleave_layout swizzle_mode fill_mode",
        "b8x16 b6x16_p32 b4x16_p64",
        "acc::f32",
    )
)
"""Modifiers that the assembler (ptxas 13.0) does not look at behind the name of an instruction that has none of the set; one
of each."""
_SOMETIMES = frozenset({"pred"}).union(*PASSED_OVER)
NAMES = {
    root: frozenset(words.split())
    for root, words in {
        "bar": "cta warp sync arrive red",
        "barrier": "cta cluster arrive wait red",
        "brx": "idx",
        "clusterlaunchcontrol": "try_cancel query_cancel",
        "cp": "reduce async bulk prefetch tensor commit_group wait_group wait_all mbarrier arrive",
        "createpolicy": "fractional range cvt",
        "cvt": "pack",
        "cvta": "to",
        "div": "full",
        "dp2a": "lo hi",
        "fence": "proxy",
        "mad": "lo hi wide",
        "mad24": "lo hi",
        "madc": "lo hi",
        "mbarrier": "init inval check_layout arrive arrive_drop test_wait try_wait expect_tx complete_tx pending_count parity",
        "membar": "proxy",
        "mul": "lo hi wide",
        "mul24": "lo hi",
        "multimem": "ld_reduce cp reduce red st async bulk",
        "pmevent": "mask",
        "red": "async",
        "setmaxnreg": "inc dec",
        "shf": "l r",
        "st": "async bulk",
        "tcgen05": "alloc dealloc relinquish_alloc_permit ld red st cp shift wait::ld wait::st mma ws",
        "tensormap": "replace cp_fenceproxy",
        "wgmma": "fence commit_group wait_group mma_async",
        "wmma": "load store mma a b c d",
    }.items()
}
"""Words that belong to an instruction's name; they come first, in this order."""
BLANKS = frozenset(
    ["bar.sync", "bar.cta.sync", "bar.warp.sync", "brx.idx", "cvt.pack", "div.full", "membar.proxy", "red.async"]
)
"""Names in which a blank may stand before the last word, nevertheless."""
BIT_OPERATIONS = frozenset({"and", "or", "xor", "popc"})
STATE_SPACES = frozenset({"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param"})
_IN_ORDER = (TYPES.keys() | {"s2", "u2"}, STATE_SPACES, BIT_OPERATIONS)  # these two of cvt.pack alone


_PASSING_PRED = "abs add atom cos cp cvt ex2 fma lg2 max min mul multimem neg rcp red rsqrt set setp sin sqrt sub tanh"
PASSING_PRED = frozenset(_PASSING_PRED.split())
"""Opcodes that pass over a .pred among their types; cp only in reductions, mul not with .lo, .hi or .wide, red not with .async."""


def _looked_at(root: str, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """The modifiers without those that the assembler passes over."""
    if _SOMETIMES.isdisjoint(modifiers):
        return modifiers
    left = list(modifiers)
    for words in PASSED_OVER:
        found = [place for place, word in enumerate(left) if word in words]
        if len(found) != 1 or any(word in NAMES.get(root, ()) for word in left[found[0] :]):
            continue
        if not any(words & slot.values for form in REGISTRY.get(root, ()) for slot in form.pattern.slots):
            del left[found[0]]
    if "pred" in left and root in PASSING_PRED and ("reduce" in left or not {"async", "lo", "hi", "wide"} & set(left)):
        left = [word for word in left if word != "pred"]
    return tuple(left)


def _named(root: str, form: Form, filled: dict[int, str], words: tuple[str, ...]) -> bool:
    """Whether the words of the name come first, and types and state spaces are in the form's order."""
    names = NAMES.get(root)
    if names is not None:
        wanted = [filled[i] for i in sorted(filled) if filled[i] in names]
        if list(words[: len(wanted)]) != wanted:
            return False
    return all(_ordered(filled, words, kind) for kind in _IN_ORDER)


@functools.cache
def is_name(text: str) -> bool:
    """Whether dotted words are the name of an instruction or begin one: the assembler (ptxas 13.0) takes no blank before the last."""
    root, *words = text.split(".")
    return text not in BLANKS and any(_begins(form, words) for form in REGISTRY.get(root, ()))


def _begins(form: Form, words: list[str]) -> bool:
    """Whether the words of a form's name begin so."""
    left, names = list(words), NAMES.get(form.root, frozenset())
    for slot in form.pattern.slots:
        if left and left[0] in slot.values & names:
            del left[0]
        elif slot.values & names and not slot.optional:
            break
    return not left


def _ordered(filled: dict[int, str], words: tuple[str, ...], kind: Collection[str]) -> bool:
    given = [w for w in words if w in kind]
    return len(given) < 2 or [filled[i] for i in sorted(filled) if filled[i] in kind] == given


def _hinted(form: Form, modifiers: tuple[str, ...]) -> bool:
    """Operands present exactly if a modifier is, which distinguishes forms of equal length."""
    given = {plain(operand.name) for operand in form.operands}
    slots = form.pattern.words
    if ("L2::cache_hint" in modifiers) != ("cachepolicy" in given):
        return False
    if "multicast::cluster" in slots and ("multicast::cluster" in modifiers) != ("mask" in given):
        return False
    return "im2col" not in slots or any(word.startswith("im2col") for word in modifiers) == ("offsets" in given)


def nearest(root: str, modifiers: tuple[str, ...]) -> str | None:
    """The text of the form closest to a spelling without candidates."""
    if root not in REGISTRY:
        import difflib

        close = difflib.get_close_matches(root, list(REGISTRY), 1)
        return REGISTRY[close[0]][0].syntax if close else None

    def distance(form: Form) -> tuple[int, int]:
        left = list(modifiers)
        missing = 0
        for slot in form.pattern.slots:
            word = next((word for word in left if word in slot.values), None)
            if word is not None:
                left.remove(word)
            elif slot.group is None:
                missing += 1
        return len(left) + missing, len(form.syntax)

    return min(REGISTRY[root], key=distance).syntax if REGISTRY[root] else None


def continued(text: str, target: str = "", version: tuple[int, int] = (0, 0)) -> list[str]:
    """The spellings that begin with a text, up to the next dot: opcodes, then an opcode with one modifier more, in the order of
    a form's slots. With a module's ``target`` and PTX ``version``, those that lead to an instruction that it may have."""
    root, *words = text.split(".")
    if not words:
        found = {name for name in REGISTRY if name.startswith(root)}
        return sorted(n for n in found if not target or any(_exists(form, target, version) for form in REGISTRY[n]))
    given = words[:-1]
    forms = [form for form in REGISTRY.get(root, ()) if not target or _exists(form, target, version)]
    found = {word for form in forms for slot in _next(form, given)[0] for word in slot.values}
    return sorted(
        ".".join([root, *given, word])
        for word in found
        if word.startswith(words[-1]) and (not target or _leads(root, [*given, word], forms, target, version))
    )


def _next(form: Form, given: Sequence[str]) -> tuple[list[syntax.Slot], bool]:
    """The slots of a form that the word after these may fill, and whether no word is needed."""
    slots = list(form.pattern.slots)
    for word in given:
        while slots and word not in slots[0].values:
            if not slots.pop(0).optional:
                return [], False
        if not slots:
            return [], False
        del slots[0]
    needed = next((at for at, slot in enumerate(slots) if not slot.optional), len(slots))
    return slots[: needed + 1], needed == len(slots)


TRIES = 40
"""Complete spellings that are looked at before a beginning counts as legal."""


def _leads(root: str, given: list[str], forms: list[Form], target: str, version: tuple[int, int]) -> bool:
    """Whether these words begin an instruction of the module."""
    tried = 0
    for form in forms:
        left = [given]
        while left:
            words = left.pop()
            slots, ends = _next(form, words)
            if ends:
                if any(available(c, target, version) for c in candidates(root, tuple(words))):
                    return True
                tried += 1
                if tried == TRIES:
                    return True
            left += [[*words, word] for slot in slots[::-1] for word in sorted(slot.values, reverse=True)]
    return False


def _exists(form: Form, target: str, version: tuple[int, int]) -> bool:
    """Whether a module may have any instruction of a form."""
    declared = form.declared
    gone = (
        declared.until is not None
        and version >= declared.until[1]
        and satisfies((declared.until[0], None), target, version)
    )
    return not gone and satisfies(declared.needs, target, version)


def available(candidate: Candidate, target: str, version: tuple[int, int]) -> bool:
    """Whether a module may have an instruction."""
    legal = not candidate.illegal and _exists(candidate.form, target, version)
    return legal and all(satisfies(gate, target, version) for gate in candidate.gates)


def _fill(slots: tuple[syntax.Slot, ...], words: tuple[str, ...]) -> dict[int, str] | None:
    """Assign each word to a slot; None if the words do not fit."""
    filled = _assign(slots, [i for i, slot in enumerate(slots) if slot.typed], [w for w in words if w in TYPES])
    plain = [w for w in words if w not in TYPES]
    others = [i for i, slot in enumerate(slots) if not slot.typed]
    if filled is None:  # a class may mix types and other words
        if not any(TYPES.keys() & slots[i].values for i in others):
            return None
        filled, plain = {}, list(words)
        others = list(range(len(slots)))
    for word in plain:
        place = next((i for i in others if i not in filled and word in slots[i].values), None)
        if place is None:
            return None
        filled[place] = word
    groups: dict[int, bool] = {}
    for i, slot in enumerate(slots):
        if slot.group is None:
            if i not in filled:
                return None
        elif groups.setdefault(slot.group, i in filled) != (i in filled):
            return None
    return filled


def _assign(slots: tuple[syntax.Slot, ...], places: list[int], words: list[str]) -> dict[int, str] | None:
    """Assign words to slots, keeping both in order; optional slots may stay empty."""
    if not places:
        return None if words else {}
    first, *rest = places
    if words and words[0] in slots[first].values:
        filled = _assign(slots, rest, words[1:])
        if filled is not None:
            return {first: words[0], **filled}
    if slots[first].group is not None:
        return _assign(slots, rest, words)
    return None


def _candidate(form: Form, filled: dict[int, str], text: str, modifiers: tuple[str, ...]) -> Candidate:
    values: dict[str, object] = {}
    for i, slot in enumerate(form.pattern.slots):
        word = filled.get(i)
        if slot.literal:
            values[slot.name] = word is not None
        elif word in TYPES and "type" in slot.name:
            values[slot.name] = TYPES[word]
        else:
            values[slot.name] = word
    if any(spec.selectors for spec in form.operands):
        values.update(selectors={}, negative=frozenset())
    op = Op(text, modifiers, values, form.names)
    declared = form.declared
    needs: list[Gate] = [declared.needs] if declared.needs != (None, None) else []
    for i, word in filled.items():
        keys = (word, f"{form.pattern.slots[i].name}.{word}")
        needs += [declared.gates[key] for key in keys if key in declared.gates]
    if declared.gate is not None and (need := declared.gate(op)) is not None:
        needs.append(need)
    illegal = declared.legal(op) if declared.legal is not None else None
    operands = () if illegal else tuple(_typed(spec, op) for spec in form.operands)
    return Candidate(form, op, operands, illegal, tuple(needs))


def traits_of(form: Form, op: Op) -> Traits:
    """The traits of a form with these modifiers."""
    declared = form.declared.traits
    return completed(declared if isinstance(declared, Traits) else declared(op), op.modifiers)


def _typed(spec: OperandSpec, op: Op) -> TypedOperand:
    count = chosen(spec.count, op)
    if isinstance(count, str):
        word = getattr(op, count)
        count = int(str(word)[1:]) if word else 1
    spaces, limit = chosen(spec.spaces, op), chosen(spec.limit, op)
    if isinstance(spaces, str):
        word = op.given.get(spaces, spaces)
        spaces = {word} if word else None
    registers_of = chosen(spec.checked_as, op)
    return TypedOperand(
        spec,
        operand_type(spec, op),
        count,
        None if isinstance(limit, Each) else limit,
        None if spaces is None else frozenset(space.split("::")[0].lstrip(".") for space in spaces),
        None if registers_of is None else _type_of(registers_of, op),
        chosen(spec.single, op),
        chosen(spec.no_specials, op),
        chosen(spec.register, op),
        chosen(spec.relaxed, op),
        chosen(spec.exact, op),
        chosen(spec.bare, op),
        limit.limits if isinstance(limit, Each) else (),
    )


def operand_type(spec: OperandSpec, op: Op) -> ScalarType | None:
    """The type of an operand under these modifiers; None if it has none (labels, sinks)."""
    rule = chosen(spec.rule, op)
    if isinstance(rule, ScalarType):
        return rule
    if rule is None:
        found = op.get("type")
        if isinstance(found, ScalarType):
            return found
        words = [word for word in op.modifiers if word in TYPES]
        return TYPES[words[-1]] if words and spec.kind == "value" else None
    return _type_of(str(rule), op)


def _type_of(rule: str, op: Op) -> ScalarType:
    if rule.startswith("."):
        return TYPES[rule[1:]]
    if rule.startswith("2*"):
        base = _type_of(rule[2:], op)
        return TYPES[f"{base.kind}{2 * base.bits}"]
    if rule == "bits" or rule.startswith("bits:"):
        return TYPES[f"b{_type_of(rule[5:] or 'type', op).bits}"]
    if "/" in rule:
        name, divisor = rule.split("/")
        return TYPES[f"b{_type_of(name, op).bits // int(divisor)}"]
    found = op.get(rule)
    if isinstance(found, ScalarType):
        return found
    if isinstance(found, str) and found in TYPES:
        return TYPES[found]
    raise InternalError(f"{op.text}: no type in slot {rule!r}")


def satisfies(gate: Gate, target: str, version: tuple[int, int]) -> bool:
    """Whether a module's target (``sm_90a``) and PTX version satisfy a gate."""
    need, least = gate
    if least is not None and version < least:
        return False
    if need is None:
        return True
    target = target.replace("sm_101", "sm_110")  # its name before PTX 9.0
    number = int("".join(filter(str.isdigit, target)) or 0)
    for one in need if isinstance(need, tuple) else (need,):
        if isinstance(one, int):
            if number >= one:
                return True
        elif one.endswith("f"):
            base = int(one[:-1])
            if target[-1] in "af" and number // 10 == base // 10 and number >= base:
                return True
        elif target == f"sm_{one}":
            return True
    return False


def targets(need: Target | None) -> str:
    """Phrase the targets of a gate."""
    each = need if isinstance(need, tuple) else (need,)
    return " or ".join(f"sm_{one} or higher" if isinstance(one, int) else f"sm_{one}" for one in each)


_WIDE = frozenset({"applypriority", "atom", "discard", "ld", "ldu", "multimem", "prefetch", "prefetchu", "red", "st"})
"""Instructions that do not take a 32-bit register for a generic or global address; others extend it."""


def wide(root: str, op: Op, spaces: Collection[str] | None) -> bool:
    """Whether the assembler rejects an address in a 32-bit register; ``spaces`` are its possible state spaces."""
    if root == "mbarrier":
        return not _shared(op)
    if (root == "prefetch" and "tensormap" in op.text) or "async" in op.modifiers:
        return False
    return root in _WIDE and (spaces is None or "global" in spaces)


def whole(root: str, op: Op, operand: str, bits: int) -> bool:
    """Whether the assembler refuses an operand's address in a register of 8 or 16 ``bits``; elsewhere it extends it and warns."""
    words = op.text.split(".")
    if root == "createpolicy" or (root == "prefetch" and "tensormap" in words):
        return True
    if root == "cp":
        if "bulk" in words:
            return (
                operand == "bar"
                and bits == 16
                and words[1] == "async"
                and not {"tensor", "multicast::cluster"} & {*words}
            )
        return "mbarrier" in words and not _shared(op)
    if root in ("ldmatrix", "stmatrix"):
        return not _shared(op)
    if root in ("st", "red"):
        return words[1] == "bulk" or (words[1] == "async" and (operand != "bar" or not _shared(op)))
    pairs = {("multimem", "red"), ("tensormap", "replace")}
    return root == "wmma" or (root, words[1] if len(words) > 1 else "") in pairs


def _shared(op: Op) -> bool:
    return any(word.startswith("shared") for word in op.modifiers)
