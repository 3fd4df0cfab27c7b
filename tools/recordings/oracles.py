"""Which oracle holds each form of `warpsim info --isa`, written to data/oracles.txt: oracles.py

An oracle says what an instruction does without asking the code that does it here: a GPU (``hardware``: a recording whose
bits are compared), or arithmetic and addresses worked out by the test itself in Python's integers, fractions and arrays
(``exact``). Forms are those that are bound for execution while the tests of `ORACLES` run, and those of the texts whose
results are recorded, most of which the sweeps run. ``hint`` is a form that has one function with a form that has an
oracle, and differs from it in nothing but a cache policy, which by the manual never changes a value."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).parents[2] / "tests"
ORACLES = {
    "hardware": ["test_recordings.py", "isa/test_form_recordings.py", "isa/test_integer_recordings.py", "isa/test_mma_recordings.py", "isa/test_textures.py",
                 "analysis/test_constants.py", "analysis/test_contraction.py"],
    "exact": ["isa/test_exact.py", "isa/test_exact_forms.py", "isa/test_atomics.py", "isa/test_cluster.py", "isa/test_cluster_launch.py", "isa/test_matrix_moves.py", "isa/test_memory_access.py",
              "isa/test_multimem.py", "isa/test_newer_versions.py", "isa/test_stack.py", "isa/test_stochastic_rounding.py", "isa/test_tcgen05_mma.py", "isa/test_tensor_copies.py", "isa/test_tensor_memory.py", "isa/test_warp.py", "isa/test_wgmma.py", "isa/test_wmma.py", "host/test_mma.py",
              "host/test_arguments.py", "machine", "checks/test_synchronisation_patterns.py", "checks/test_synchronisation_idioms.py"],
}  # fmt: skip


STATED = {
    "tex.grad.": "modelled: the level that gradients ask for is near an H200's",
    "sampler, coordinates]": "modelled: a sampler of its own, which CUDA has none of, reads as the texture's",
    "tex{.base}.geom.vec.dtype.f32 d{|p}, [a, coordinates], ": "modelled: CUDA has no depth textures",
    "coordinates], lod, e, f": "modelled: CUDA has no depth textures",
    "coordinates], lod, f": "modelled: CUDA has no depth textures",
    "[a, coordinates], f": "modelled: CUDA has no depth textures",
    "[a, coordinates], e, f": "modelled: CUDA has no depth textures",
    "mov.pred d": "never chosen: what it matches, mov.type matches before",
    "tensormap.replace.tile.elemtype{.ss}.b1024.b32 [address], value": "writes the field that the form for other element types writes",
    "istypep": "modelled: by the manual; no recording holds it",
    "brkpt": "gives nothing, and a GPU without a debugger stops at it",
    "cp.async.bulk.prefetch.tensor.": "gives nothing: it may bring lines to the cache",
    "mma.sp::ordered_metadata.sync.aligned.shape.row.col.kind.block_scale": "the sparse and the scaled form have one each, and this is both",
}  # fmt: skip
"""What has no oracle of its own, and why it needs none: by what stands in the line."""


class Bound:
    """A pytest plugin that notes the forms that are bound."""

    def __init__(self):
        self.forms = set()

    def pytest_configure(self):
        """Look over the shoulder of whoever binds."""
        from warpsim.machine.binding import bind

        for name in ("bind_step", "bind_end"):
            plain = getattr(bind, name)

            def noted(plan, instruction, *rest, plain=plain, **more):
                self.forms.add((instruction.form.root, instruction.form.syntax))
                return plain(plan, instruction, *rest, **more)

            setattr(bind, name, noted)


def forms():
    """Every form as (opcode, line)."""
    from warpsim.isa import spec
    from warpsim.program import build  # noqa: F401 - declares all instructions

    return [(root, form.syntax) for root in sorted(spec.opcodes()) for form in spec.forms(root)]


def plain(line):
    """A form without its cache policy."""
    for word in (".hint", ", cache_policy"):
        line = line.replace(word, "")
    return line


def recorded():
    """The forms in the kernels and single instructions whose results on a GPU are kept."""
    import matrices
    import transfers
    import warpsim
    from forms import HEAD, entry
    from forms import recorded as instructions

    texts = [path.read_text(encoding="utf-8") for path in TESTS.parent.glob("*/*/kernel.ptx")]
    texts += [path.read_text(encoding="utf-8") for path in TESTS.glob("cases/**/kernel.ptx")]
    texts += [trial.text for trial in matrices.wanted("0/5")]
    with np.load(TESTS / "data" / "transfers_h200.npz") as stored:
        texts += [transfers.entry(line.split("\t")) for line in stored["launches"].tolist()]
    texts += [HEAD + entry(0, form) for form in instructions(TESTS / "data" / "forms_h100.npz")]
    programs = (warpsim.load(text).program for text in dict.fromkeys(texts))
    return {(i.form.root, i.form.syntax) for p in programs for f in p.functions.values() for i in f.code}


def main():
    """Run the oracles, one process for each, and write the list."""
    if len(sys.argv) > 1:
        bound = Bound()
        status = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[bound])
        if status:
            sys.exit(f"an oracle fails: pytest ends with {status!r}")
        Path(sys.argv[1]).write_text("".join(f"{root}\t{line}\n" for root, line in sorted(bound.forms)))
        return
    found = {}
    for kind, names in ORACLES.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "forms"
            tests = [str(TESTS / name) for name in names if (TESTS / name).exists()]
            subprocess.run([sys.executable, __file__, str(out), *tests], check=True, cwd=TESTS.parent)
            found[kind] = {tuple(line.split("\t")) for line in out.read_text().splitlines()}
    found["hardware"] |= recorded()
    held = {(root, plain(line)) for known in found.values() for root, line in known}
    lines = []
    for root, line in forms():
        kinds = [kind for kind in ORACLES if (root, line) in found[kind]]
        if not kinds and plain(line) != line and (root, plain(line)) in held:
            kinds = ["hint"]
        if not kinds:
            kinds = [f"stated: {why}" for text, why in STATED.items() if text in line][:1]
        lines.append("\t".join([root, line, " ".join(kinds) or "-"]))
    (TESTS / "data" / "oracles.txt").write_text("\n".join(lines) + "\n")
    print(len(lines), "forms,", sum(line.endswith("\t-") for line in lines), "without an oracle")


if __name__ == "__main__":
    main()
