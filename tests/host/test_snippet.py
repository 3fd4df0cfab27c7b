"""warpsim.run: instructions without a kernel."""

import numpy as np
import pytest

import warpsim


def test_registers_by_name():
    """Values go in and come out by register name, in the type of their use."""
    result = warpsim.run("add.u32 d, a, b;", registers={"a": np.arange(32), "b": 2**32 - 1})

    assert [(x - 1) % 2**32 for x in range(32)] == result.registers["d"].tolist()


def test_vector_registers_and_shared():
    """Vectors by column; the shared array is filled before and read after."""
    code = "mov.u32 t, %tid.x; shl.b32 t, t, 2; ld.shared.u32 x, [t]; mad.lo.u32 d, a0, a1, x; st.shared.u32 [t], d;"
    values = np.stack([np.arange(32), np.full(32, 3)], axis=1)
    result = warpsim.run(code, registers={"a": values}, shared=np.arange(32, dtype=np.uint32))

    assert [4 * x for x in range(32)] == result.registers["d"].tolist()
    assert result.registers["d"].tolist() == result.shared.view(np.uint32).tolist()
    assert warpsim.run("mov.u32 t, 0;", shared=np.arange(17, dtype=np.uint8)).shared.tolist() == list(range(17))


def test_divergence_keeps_every_register():
    """Lanes that took another way keep their own values."""
    code = "mov.u32 t, %tid.x; and.b32 t, t, 1; setp.eq.u32 p, t, 0; @p bra even; mov.u32 d, 7; bra.uni done; even: mov.u32 d, 9; done:"
    result = warpsim.run(code)

    assert result.registers["d"].tolist() == [9, 7] * 16


def test_unknown_register():
    """A register that no instruction uses is named."""
    with pytest.raises(warpsim.LaunchError, match="no register q"):
        warpsim.run("add.u32 d, a, b;", registers={"q": 1})


def test_text_that_ends_early():
    """What is missing at the end is missed at the end of the code, not in what `run` puts behind it."""
    with pytest.raises(warpsim.PtxError, match="1:13: syntax: found the end of the code"):
        warpsim.run("add.u32 d, a")


@pytest.mark.parametrize(
    ("code", "place"), [("nonsense d;", "1:1"), (" nonsense d;", "1:2"), ("mov.u32 d, 1;\nnonsense d;", "2:1")]
)
def test_places_of_findings(code, place):
    """They count from the beginning of the code."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.run(code)
    assert f"{caught.value.findings[0].line}:{caught.value.findings[0].column}" == place


def test_vector_named_as_declared():
    """``name<n>`` and ``name`` give the same registers."""
    values = np.stack([np.arange(32), np.full(32, 3)], axis=1)
    result = warpsim.run("sub.u32 d, a0, a1;", registers={"a<2>": values})

    assert [(x - 3) % 2**32 for x in range(32)] == result.registers["d"].tolist()
