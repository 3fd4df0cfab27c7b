"""What single instructions do on a GPU, form by form: record once, compare whenever wanted.

    python tools/recordings/forms.py record LIST OUT.npz    on a machine with a GPU of sm_90 and its driver; needs NumPy and attrs
    python tools/recordings/forms.py compare OUT.npz        runs the same forms in the simulator and names what differs

LIST is a text with an instruction in each line, such as ``addc.sat.s32 s1, s2, s3;``. Its registers are named by their
type (``REGISTERS``), destinations stand first. Each of ``THREADS`` threads executes it on operands of its own, random or
adversarial; those of a form depend on nothing but its text. ``%cc`` is set before, from an operand, and read behind.
"""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

import numpy as np

from moves import Gpu, special_words

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
THREADS, MODULE = 64, 100
REGISTERS = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "x": "f16x2", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
_REGISTER = re.compile(r"\b(bb|uh|sh|hf|uq|sq|b|u|s|f|d|x|h|q|p)(\d)\b")


def operands_of(form: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Destination and source registers of a form, as (prefix, digit), each once."""
    text = form.split(None, 1)[1].rstrip("; ")
    end = text.index("}") + 1 if text.startswith("{") else text.index(",")
    first, rest = text[:end], text[end:]
    return (list(dict.fromkeys(_REGISTER.findall(part))) for part in (first, rest))  # type: ignore[return-value]


def bits_of(prefix: str) -> int:
    """Width of a register in memory, in bits."""
    name = REGISTERS[prefix]
    return 8 if name in ("pred", "b8") else 32 if name == "f16x2" else int(name.lstrip("busf"))


def entry(number: int, form: str) -> str:
    """A kernel: 16 bytes of input for each source and the flag, 16 bytes of output for each destination and the flag."""
    targets, sources = operands_of(form)
    size_in, size_out = 16 * (len(sources) + 1), 16 * (len(targets) + 1)
    lines = [
        f".visible .entry k{number}(.param .u64 source, .param .u64 target) {{",
        *(f".reg .{type} {name}<10>;" for name, type in REGISTERS.items()),
        ".reg .b64 in, out; .reg .b32 t, w, z; .reg .b16 half;",
        "ld.param.u64 in, [source]; ld.param.u64 out, [target]; mov.u32 t, %tid.x;",
        f"mad.wide.u32 in, t, {size_in}, in; mad.wide.u32 out, t, {size_out}, out;",
    ]
    for at, (prefix, digit) in enumerate(sources):
        name = f"{prefix}{digit}"
        if prefix == "p":
            lines.append(f"ld.global.u32 w, [in+{16 * at}]; and.b32 w, w, 1; setp.ne.u32 {name}, w, 0;")
        elif prefix in ("hf", "x"):
            word = "half" if prefix == "hf" else "w"
            lines.append(f"ld.global.b{bits_of(prefix)} {word}, [in+{16 * at}]; mov.b{bits_of(prefix)} {name}, {word};")
        else:
            lines.append(f"ld.global.{REGISTERS[prefix]} {name}, [in+{16 * at}];")
    for prefix, digit in targets:
        if (prefix, digit) not in sources and prefix not in ("p", "bb"):
            bits = bits_of(prefix)
            lines.append(f"mov.b{bits} {prefix}{digit}, {int('5A' * (bits // 8), 16)};")
    lines.append(f"ld.global.u32 w, [in+{16 * len(sources)}]; and.b32 w, w, 1; mov.u32 z, 0xffffffff;")
    lines.append(f"add.cc.u32 w, w, z; {form} addc.u32 w, 0, 0;")
    for at, (prefix, digit) in enumerate(targets):
        name = f"{prefix}{digit}"
        if prefix == "p":
            lines.append(f"selp.u32 z, 1, 0, {name}; st.global.u32 [out+{16 * at}], z;")
        elif prefix in ("hf", "x"):
            word = "half" if prefix == "hf" else "z"
            lines.append(
                f"mov.b{bits_of(prefix)} {word}, {name}; st.global.b{bits_of(prefix)} [out+{16 * at}], {word};"
            )
        else:
            lines.append(f"st.global.{REGISTERS[prefix]} [out+{16 * at}], {name};")
    lines.append(f"st.global.u32 [out+{16 * len(targets)}], w; ret; }}")
    return "\n".join(lines)


def kinds(form: str, prefix: str) -> list[str]:
    """Names of types whose special values matter for a register of a form."""
    name = REGISTERS[prefix]
    words = [w for w in re.split(r"[.\s]", form) if w in ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")]
    fitting = [
        w
        for w in words
        if {"f16x2": 32, "bf16x2": 32, "bf16": 16}.get(w, int(w.strip("bf").split("x")[0])) == bits_of(prefix)
    ]
    return [*fitting, name] if fitting else [name]


def inputs(form: str) -> np.ndarray:
    """``[THREADS, slots * 16]`` bytes: of each operand half are special for its type."""
    rng = np.random.default_rng(zlib.crc32(form.encode()))
    _, sources = operands_of(form)
    data = rng.integers(0, 256, (THREADS, 16 * (len(sources) + 1)), dtype=np.uint8)
    for at, (prefix, _) in enumerate(sources):
        bits = bits_of(prefix)
        for kind in kinds(form, prefix) if prefix != "p" else []:
            width = 16 if kind.endswith("x2") else bits
            special = special_words(width, kind).astype(f"<u{width // 8}")
            words = data[:, 16 * at : 16 * at + bits // 8].copy().view(f"<u{width // 8}")
            chosen = rng.random(words.shape) < 0.5
            words[chosen] = special[rng.integers(0, len(special), int(chosen.sum()))]
            if kind[0] in "us" and rng.random() < 0.5:  # small numbers: counts, positions, widths
                few = rng.random(words.shape) < 0.3
                words[few] = rng.integers(0, 70, int(few.sum())).astype(words.dtype)
            data[:, 16 * at : 16 * at + bits // 8] = words.view(np.uint8)
    return data


def blank(form: str) -> np.ndarray:
    """The output before the launch."""
    targets, _ = operands_of(form)
    return np.full((THREADS, 16 * (len(targets) + 1)), 0xCD, np.uint8)


def record(listed: str, path: str) -> int:
    """Run every form of a list on the GPU and keep the outputs."""
    forms = [line for line in Path(listed).read_text().splitlines() if line]
    gpu, results = Gpu(), {}
    for start in range(0, len(forms), MODULE):
        part = forms[start : start + MODULE]
        gpu.load(HEAD + "\n".join(entry(n, form) for n, form in enumerate(part)))
        for n, form in enumerate(part):
            results[form] = gpu.run(f"k{n}", inputs(form), blank(form), THREADS)
    sizes = [results[form].size for form in forms]
    np.savez_compressed(
        path, forms=np.array(forms), sizes=sizes, out=np.concatenate([results[f].reshape(-1) for f in forms])
    )
    print(f"{len(forms)} forms recorded")
    return 0


def recorded(path: str | Path) -> dict[str, np.ndarray]:
    """The outputs of a recording by form."""
    with np.load(path) as stored:
        parts = np.split(stored["out"], np.cumsum(stored["sizes"])[:-1])
        return dict(zip(stored["forms"].tolist(), parts, strict=True))


def simulated(forms: list[str]) -> dict[str, np.ndarray | str]:
    """What the simulator gives for forms: the output, or the error."""
    import warpsim

    results: dict[str, np.ndarray | str] = {}
    for start in range(0, len(forms), MODULE):
        part = forms[start : start + MODULE]
        try:
            module = warpsim.load(HEAD + "\n".join(entry(n, form) for n, form in enumerate(part)))
        except warpsim.PtxError as error:
            if len(part) == 1:
                results[part[0]] = str(error).splitlines()[0]
            else:
                half = len(part) // 2
                results |= simulated(part[:half]) | simulated(part[half:])
            continue
        for n, form in enumerate(part):
            out = blank(form)
            try:
                module[f"k{n}"]((1,), (THREADS,), (inputs(form), out))
                results[form] = out.reshape(-1)
            except warpsim.WarpsimError as error:
                results[form] = str(error).splitlines()[0]
    return results


def some(forms: list[str]) -> list[str]:
    """A few of these that have every modifier of every opcode."""
    having = {form: {(root, word) for word in words} for form in forms for root, *words in [form.split()[0].split(".")]}
    wanted, chosen = set().union(*having.values()), []
    while wanted:
        chosen.append(max(forms, key=lambda form: len(having[form] & wanted)))
        wanted -= having[chosen[-1]]
    return chosen


def differences(path: str | Path, part: int | None = None, parts: int = 1) -> list[str]:
    """The recorded forms (or `some` of them, or every so many of the others, from ``part`` on) that the simulator does
    otherwise, with the first operands for which it does.
    """
    wrong = []
    want = recorded(path)
    if part is not None:
        first = some(list(want))
        chosen = [form for form in want if form not in first][part - 1 :: parts - 1] if part else first
        want = {form: want[form] for form in chosen}
    for form, got in simulated(list(want)).items():
        if isinstance(got, str):
            wrong.append(f"{form} {got}")
            continue
        rows, expected = got.reshape(THREADS, -1), want[form].reshape(THREADS, -1)
        if (bad := (rows != expected).any(axis=1)).any():
            t = int(np.flatnonzero(bad)[0])
            shown = [x.view("<u8")[::2] for x in (inputs(form)[t], rows[t], expected[t])]
            texts = [" ".join(f"{int(v):x}" for v in words) for words in shown]
            wrong.append(
                f"{form} in {int(bad.sum())} of {THREADS}: of {texts[0]} it makes {texts[1]}, the GPU {texts[2]}"
            )
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"] and len(sys.argv) == 4:
        sys.exit(record(sys.argv[2], sys.argv[3]))
    if sys.argv[1:2] != ["compare"] or len(sys.argv) != 3:
        sys.exit(__doc__)
    found = differences(sys.argv[2])
    print("\n".join([*found, f"{len(found)} forms differ"]))
    sys.exit(bool(found))
