"""What an editor says of a word of PTX, and the words that may stand at a place."""

from __future__ import annotations

import re

import warpsim.isa  # noqa: F401  declares the instructions
from warpsim.cli.lsp.text import NAME, Scope, Text
from warpsim.isa import matching, spec, unsupported
from warpsim.isa.evidence import MEANING, evidence
from warpsim.isa.spec import Form
from warpsim.program.names import SPECIALS
from warpsim.ptx.words import ENTRY_DIRECTIVES, FUNC_DIRECTIVES, MODULE_DIRECTIVES, SPACES, TYPES
from warpsim.report.findings import MANUAL

MOST = 6
"""Most forms of an instruction that are shown, and most files of evidence."""
_OPENED = re.compile(r"(?:^|[;{}]|(?<!:):(?!:)|@!?[\w$%]+\s)\s*(\.?[a-zA-Z_][\w.:]*)?$", re.ASCII)
_TYPING = re.compile(rf"(?:{NAME}|%)?$", re.ASCII)
_OTHERS = [".entry", ".func", ".visible", ".extern", ".weak", ".align", ".loc", ".version", ".target", ".address_size"]
DIRECTIVES = sorted(
    {*SPACES, *_OTHERS} | {f".{name}" for name in (*ENTRY_DIRECTIVES, *FUNC_DIRECTIVES, *MODULE_DIRECTIVES)}
)


# ---- hover --------------------------------------------------------------------------------------


def hover(text: Text, line: int, column: int) -> tuple[str, int, int] | None:
    """What there is to say of a place, in Markdown, and the columns of the word that it is about."""
    found = text.opcode(line, column)
    if found is not None and (said := instruction(found[1], text)):
        return said + _source(text, line), *found.span(1)
    word = text.word(line, column)
    if word is None:
        return None
    said = name(word[0], text, line, column)
    return (said + _source(text, line), *word.span()) if said else None


def _source(text: Text, line: int) -> str:
    source = text.source(line)
    return "" if source is None else f"\n\nCUDA: `{text.source_text(source)}`"


def instruction(spelling: str, text: Text) -> str:
    """An instruction: the forms that it may be, what they do, where they run, what their bits rest on."""
    root, *modifiers = spelling.rstrip(".:").split(".")
    if root in unsupported.OPCODES:
        return f"`{root}` is PTX, but this version of warpsim does not run it."
    if not spec.forms(root):
        return ""
    found = [c for c in matching.candidates(root, tuple(modifiers)) if not c.illegal]
    forms = [c.form for c in found] or [f for f in spec.forms(root) if _has(f, modifiers)] or spec.forms(root)
    parts = [f"```ptx\n{chr(10).join(f.syntax for f in forms[:MOST])}\n```"]
    if len(forms) > MOST:
        parts[0] += f"\n\nand {len(forms) - MOST} forms more"
    parts += list(dict.fromkeys(f.purpose for f in forms))[:3]
    form = forms[0]
    gates = found[0].gates if found else (form.declared.needs,)
    parts.append(f"**Runs on** {_gates(gates)}{_until(form)}")
    if found and not any(matching.available(c, text.target, text.version) for c in found):
        parts[-1] += f"; not in this module (.version {text.version[0]}.{text.version[1]}, .target {text.target})"
    known = evidence(form, spelling, int("".join(filter(str.isdigit, text.target))))
    parts.append(f"**Bits on {text.target}**: {MEANING[known.standing]} ({known.source})")
    parts.append(f"**Syntax block**\n```ptx\n{form.block}\n```")
    parts.append(f"[PTX ISA: {form.anchor}]({MANUAL}#{form.anchor})")
    return "\n\n".join(part for part in parts if part)


def _has(form: Form, modifiers: list[str]) -> bool:
    """Whether a form has a place for each of these words."""
    return all(any(word in slot.values for slot in form.pattern.slots) for word in modifiers)


def _gates(gates: tuple[spec.Gate, ...]) -> str:
    targets = list(dict.fromkeys(matching.targets(need) for need, _ in gates if need is not None))
    version = max((least for _, least in gates if least is not None), default=None)
    where = " and ".join(targets) or "every target"
    return where if version is None else f"{where}, from PTX {version[0]}.{version[1]} on"


def _until(form: Form) -> str:
    until = form.declared.until
    return "" if until is None else f"; gone since PTX {until[1][0]}.{until[1][1]} on sm_{until[0]} and newer"


def name(word: str, text: Text, line: int, column: int) -> str:
    """A register, label, variable or function."""
    special = SPECIALS.get(word.removeprefix("%")) if word.startswith("%") else None
    if special is not None:
        return f"```ptx\n{word}\n```\n\nspecial register, .{special}"
    found = text.scope(text.starts[line] + column).find(word)
    if found is None:
        return ""
    what = {"label": "label", "entry": "kernel", "func": "function", ".reg": "register"}.get(found.kind, "variable")
    return f"```ptx\n{found.text}\n```\n\n{what}, declared in line {text.place(found.start)[0] + 1}"


# ---- completion ---------------------------------------------------------------------------------


def completions(text: Text, line: int, column: int) -> tuple[int, list[tuple[str, str]]]:
    """The column where the word under the cursor begins, and the words that may stand there, each with what it is."""
    before = text.code(line)[:column]
    if len(before) < column:  # in a comment
        return column, []
    opened = _OPENED.search(before)
    if opened is not None and not _continues(text, line):
        word = opened[1] or ""
        if word.startswith("."):
            return column - len(word), [(d, "directive") for d in DIRECTIVES if d.startswith(word)]
        dot = word.rfind(".") + 1
        found = matching.continued(word, text.target, text.version)
        return column - len(word) + dot, [(one[dot:], "modifier" if dot else "opcode") for one in found]
    directive = re.search(r"(?<![\w.])\.(?:reg|param|shared|global|const|local)\b[^;(]*\s\.(\w*)$", before)
    if directive is not None:
        return directive.start(1), [(t, "type") for t in sorted(TYPES) if t.startswith(directive[1])]
    typing = _TYPING.search(before)
    assert typing is not None
    word = typing[0]
    return column - len(word), [
        n for n in _names(text.scope(text.starts[line] + column), word) if n[0].startswith(word)
    ]


def _continues(text: Text, line: int) -> bool:
    """Whether a line goes on with a statement of the one above."""
    for above in range(line - 1, max(line - 20, -1), -1):
        code = text.code(above).rstrip()
        if code.strip():
            return code[-1] == "," or (code[-1] not in ";{}:" and not code.lstrip().startswith("."))
    return False


def _names(scope: Scope | None, word: str) -> list[tuple[str, str]]:
    """The names that are visible in a scope, and the special registers."""
    found: dict[str, str] = {}
    while scope is not None:
        for declared in scope.names.values():
            if declared.count is None:
                found.setdefault(declared.name, declared.text)
            else:
                for number in range(min(declared.count, 1000)):
                    found.setdefault(f"{declared.name}{number}", declared.text)
        scope = scope.above
    if word.startswith("%"):
        found.update({f"%{special}": f"special register, .{of}" for special, of in SPECIALS.items()})
    return list(found.items())
