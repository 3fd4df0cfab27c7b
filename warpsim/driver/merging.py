"""Links PTX modules into one by editing their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warpsim.ptx.tokens import Tokens
from warpsim.records import frozen

UNENDED = {".version": 2, ".address_size": 2, ".target": 2, ".file": 3}
"""Statements without a semicolon, and their number of tokens; each comma adds two."""
LINKAGES = (".extern", ".visible", ".weak", ".common")
SPACES = (".global", ".const", ".shared", ".tex")
REPLACEABLE = (".weak", ".common")
"""Definitions of which one is kept."""
_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")
_TARGET = re.compile(r"\.target\s+(sm_(\d+)([af]?))")


@frozen
class Statement:
    """A declaration or definition at module scope, by character offsets."""

    start: int
    stop: int
    word: str
    """What it is: ``.func``, ``.entry``, a state space, or its first token."""
    linkage: str = ""
    name: str = ""
    place: int = 0
    """Where its name is."""
    result: str = ""
    """The return parameter of a function, in parentheses."""
    body: int | None = None
    """Where a definition's contents begin: a function's brace, or what follows a variable's declaration."""

    @property
    def shared(self) -> bool:
        """Whether other modules see it."""
        return bool(self.linkage) or self.word == ".entry"


class Linkable:
    """A module's text, and its statements at module scope."""

    def __init__(self, text: bytes) -> None:
        self.text = text.decode("utf-8", "replace")
        self.tokens = Tokens(self.text, "")
        self.statements = list(_statements(self.tokens))
        self.definitions = [s for s in self.statements if s.name and s.body is not None]
        self.declared = {s.name for s in self.statements if s.linkage == ".extern" and s.word != ".shared"}
        self.defined = {s.name for s in self.definitions if s.shared}
        inside = [s for s in self.statements if s.word == ".section"]
        self.local = {s.name for s in self.statements if s.name and not s.shared}
        self.local |= {name for s in inside for name in re.findall(r"(?m)^\s*([\w$]+):", self.text[s.start : s.stop])}
        self.edits: list[tuple[int, int, str]] = []

    def header(self, statement: Statement, result: str) -> str:
        """A function's declaration, with the return parameter that its callers expect."""
        head, at = self.text[statement.start : statement.body], statement.place - statement.start
        if statement.word == ".entry":  # without its directives
            head = head[: head.rindex(")") + 1] if ")" in head else head[:at] + head[at:].partition(".")[0]
        return f"{head[:at]}{result}{head[at:].rstrip()};"

    def rename(self, names: dict[str, str], files: dict[str, int]) -> None:
        """Rename local names, and renumber files."""
        tokens, before = self.tokens, ""
        for i, (kind, text) in enumerate(zip(tokens.kinds, tokens.texts, strict=True)):
            start = tokens.starts[i]
            if kind == "word" and text in names:
                if tokens.kinds[i + 1] != "dotted" or tokens.starts[i + 1] > start + len(text):  # not an opcode
                    self.edits.append((start, start + len(text), names[text]))
            elif kind == "integer" and before in (".file", ".loc", "inlined_at") and text in files:
                self.edits.append((start, start + len(text), str(files[text])))
            before = text

    def edited(self) -> str:
        """The text with its edits; edits inside a replaced part are dropped."""
        parts, at = [], 0
        for start, stop, new in sorted(self.edits, key=lambda edit: (edit[0], -edit[1])):
            if start >= at:
                parts += [self.text[at:start], new]
                at = stop
        return "".join([*parts, self.text[at:]])


def _statements(tokens: Tokens) -> Iterator[Statement]:
    i, kinds, texts = 0, tokens.kinds, tokens.texts
    while kinds[i] != "end":
        first, depth, body, value = i, 0, None, False
        if texts[i] in UNENDED:
            i = min(i + UNENDED[texts[i]], len(texts) - 1)
            while texts[i] == ",":
                i = min(i + 2, len(texts) - 1)
        else:
            while kinds[i] != "end":
                text, i = texts[i], i + 1
                if body is None and text in ("{", "=", ";"):
                    body, value = i - 1, text == "="
                depth += (text == "{") - (text == "}")
                if depth <= 0 and (text == ";" or (text == "}" and not value)):
                    break
        yield _statement(tokens, first, i, body)


def _statement(tokens: Tokens, first: int, end: int, body: int | None) -> Statement:
    """The statement of some tokens; ``body`` is the first brace, sign of equality or semicolon."""
    kinds, texts, starts = tokens.kinds, tokens.texts, tokens.starts
    start, stop = starts[first], starts[end - 1] + len(texts[end - 1])
    linkage = texts[first] if texts[first] in LINKAGES else ""
    word = texts[first + 1] if linkage else texts[first]
    if word not in (".func", ".entry", *SPACES):
        return Statement(start, stop, texts[first])
    depth, name, result = 0, None, ""
    for j in range(first, end):
        depth += (texts[j] == "(") - (texts[j] == ")")
        if kinds[j] == "word" and depth == 0:
            name = j
            break
    if name is None:
        return Statement(start, stop, texts[first])
    if texts[name - 1] == ")" and word == ".func":
        result = tokens.text[tokens.text.index("(", start) : starts[name - 1] + 1]
    defines = body is not None and (texts[body] == "{" if word in (".func", ".entry") else linkage != ".extern")
    return Statement(
        start, stop, word, linkage, texts[name], starts[name], result, starts[body] if body and defines else None
    )


def linked(texts: list[bytes]) -> bytes:
    """Link several PTX modules into one, with the newest version and target among them.

    An external declaration becomes a forward declaration if the definition comes later, and is removed if it came before.
    One of several weak definitions is kept. Local names and file numbers that collide are changed. Machine code has no
    types: a function without a result can be declared and called as if it had one; the value is then undefined.
    """
    if len(texts) == 1:
        return texts[0]
    units = [Linkable(text) for text in texts]
    kept: dict[str, tuple[int, Statement]] = {}
    for i, unit in enumerate(units):
        for s in unit.definitions:
            if s.shared and (s.name not in kept or _yields(kept[s.name][1], s)):
                kept[s.name] = i, s
    results = {name: _expected(units, s) for name, (_, s) in kept.items()}
    paths: dict[str, int] = {}
    have, taken = {text for unit in units for text in unit.tokens.texts}, set[str]()
    for i, unit in enumerate(units):
        shared = set[str]().union(*(other.declared | other.defined for other in units if other is not unit))
        unit.rename({name: _other(name, i, have) for name in unit.local & (taken | shared)}, _files(unit, paths))
        taken |= unit.local
        for s in unit.statements:
            _resolve(units, i, s, kept, results)
    versions = [(int(m[1]), int(m[2])) for unit in units for m in [_VERSION.search(unit.text)] if m is not None]
    targets = [m for unit in units for m in [_TARGET.search(unit.text)] if m is not None]
    target = max(targets, key=lambda m: (int(m[2]), m[3]))[1] if targets else "sm_70"
    head = ".version {}.{}\n.target {}\n.address_size 64\n".format(*max(versions, default=(6, 0)), target)
    return (head + "\n".join(unit.edited() for unit in units)).encode()


def _yields(old: Statement, new: Statement) -> bool:
    """Whether a definition gives way to another."""
    return old.linkage in REPLACEABLE and new.linkage not in REPLACEABLE


def _expected(units: list[Linkable], function: Statement) -> str:
    """The return parameter that every declaration gives a function that has none."""
    if function.word != ".func" or function.result:
        return ""
    declared = [s.result for unit in units for s in unit.statements if s.name == function.name and s.body is None]
    return declared[0] if declared and all(declared) else ""


def _other(name: str, i: int, have: set[str]) -> str:
    """A name that no module has."""
    new = f"{name}${i}"
    while new in have:
        new += "_"
    return new


def _files(unit: Linkable, paths: dict[str, int]) -> dict[str, int]:
    """The new numbers of a module's files: the same path has one, and is named once."""
    new = {}
    for s in unit.statements:
        if s.word == ".file":
            match = re.match(r'\.file\s*(\d+)\s*(".*")', unit.text[s.start : s.stop])
            if match is None:  # which the loader reports
                continue
            if match[2] in paths:
                unit.edits.append((s.start, s.stop, ""))
            new[match[1]] = paths.setdefault(match[2], len(paths) + 1)
    return new


def _resolve(
    units: list[Linkable], i: int, s: Statement, kept: dict[str, tuple[int, Statement]], results: dict[str, str]
) -> None:
    """Edit a statement of module ``i``."""
    unit = units[i]
    if s.word in UNENDED and s.word != ".file":
        unit.edits.append((s.start, s.stop, ""))
    if s.name not in kept or not s.shared or (s.linkage == ".extern" and s.word == ".shared"):
        return
    where, definition = kept[s.name]
    if s is definition:
        unit.edits.append((s.place, s.place, results[s.name]))
    elif where == i and s.linkage == ".extern":  # which is an error, of a function
        return
    elif s.body is None or s.linkage in REPLACEABLE:
        new = ""
        if where >= i and definition.word in (".func", ".entry"):
            new = units[where].header(definition, results[s.name])
        elif where >= i:
            new = ".extern" + unit.text[s.start + len(s.linkage) : s.body or s.stop - 1] + ";"
        unit.edits.append((s.start, s.stop, new))


def needed(texts: list[bytes], members: list[bytes]) -> list[bytes]:
    """The members of libraries that define what the modules, or members that they need, only declare."""
    units, left, chosen = [Linkable(text) for text in texts], {text: Linkable(text) for text in members}, list[bytes]()
    while True:
        have = [*units, *(left[text] for text in chosen)]
        missing = set[str]().union(*(u.declared for u in have)) - set[str]().union(*(u.defined for u in have))
        found = next((text for text, unit in left.items() if text not in chosen and unit.defined & missing), None)
        if found is None:
            return chosen
        chosen.append(found)


ARCHIVE = b"cuda_device_runtime.o/"
"""The library's member, by which it is recognised."""
DEVICE_RUNTIME = b""".version 6.0
.target sm_70
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %p;
    .reg .b32 %s, %high, %low;
    .reg .b64 %h;
    ld.param.u32 %s, [scope];
    mov.b32 %high, %envreg1;
    mov.b32 %low, %envreg2;
    mov.b64 %h, {%low, %high};
    setp.eq.u32 %p, %s, 1;
    selp.b64 %h, %h, 0, %p;
    st.param.b64 [handle], %h;
    ret;
}
.visible .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value)
{
    .reg .b32 %v;
    .reg .b64 %c;
    ld.param.u64 %c, [condition];
    ld.param.u32 %v, [value];
    st.global.u32 [%c], %v;
    ret;
}
.visible .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %p, %q;
    .reg .b32 %x, %y, %z, %n, %first, %old, %now;
    .reg .b64 %h;
    ld.param.u64 %h, [handle];
    setp.eq.u64 %p, %h, 0;
    @%p bra none;
    barrier.sync 0;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u32 %p, %x, 0;
    @%p bra done;
    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.u32 %n, %x, %y;
    mul.lo.u32 %n, %n, %z;
    sub.u32 %first, 0x80000001, %n;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.eq.u32 %q, %x, 0;
    selp.b32 %n, %first, 1, %q;
    atom.acq_rel.gpu.add.u32 %old, [%h+4], %n;
wait:
    ld.acquire.gpu.u32 %now, [%h+4];
    xor.b32 %now, %now, %old;
    setp.ge.s32 %p, %now, 0;
    @%p bra wait;
done:
    barrier.sync 0;
    st.param.b32 [status], 0;
    ret;
none:
    st.param.b32 [status], 999;
    ret;
}
"""
"""The supported functions of the device runtime (libcudadevrt.a, which is machine code): the barrier of a cooperative
grid, and setting the conditions of graphs, whose handles are addresses.

The handle of a grid points to the structure that the launch sets up for its barriers. The second word counts arrivals;
the first CTA adds a number with which all arrivals together flip the top bit.
"""
