"""ldmatrix, stmatrix and movmatrix: bytes, packed elements, and what the assembler refuses."""

import numpy as np
import pytest

import warpsim

LANE = np.arange(32)
GROUP, MEMBER = LANE // 4, LANE % 4


def packed_rows(values, bits):
    """Rows of sixteen elements of 8, 6 or 4 bits, little-endian from bit 0, padded to 16 bytes."""
    rows = []
    for row in values:
        number = sum(int(v) << (bits * i) for i, v in enumerate(row))
        rows.append(np.frombuffer(number.to_bytes(16, "little"), np.uint8))
    return np.stack(rows)


def load(instruction, memory, addresses, count, target="sm_120a"):
    """The registers ``[count, 32]`` as bytes ``[count, 32, 4]``."""
    names = ", ".join(f"r{i}" for i in range(count))
    result = warpsim.run(
        f".reg .b32 r<{count}>; {instruction} {{{names}}}, [p];",
        registers={"p": addresses},
        shared=memory,
        target=target,
    )
    return np.stack([result.registers[f"r{i}"].view(np.uint8).reshape(32, 4) for i in range(count)])


@pytest.mark.parametrize(("source", "bits"), [("b8", 8), ("b8x16.b6x16_p32", 6), ("b8x16.b4x16_p64", 4)])
@pytest.mark.parametrize("matrices", [1, 2])
def test_ldmatrix_m16n16_transposes_bytes(source, bits, matrices):
    """Lane 4g + t holds, of the transposed matrix, columns 4t to 4t + 3 of rows g and g + 8."""
    values = np.random.default_rng(bits).integers(0, 1 << bits, (matrices, 16, 16))
    memory = packed_rows(values.reshape(-1, 16), bits)
    order = np.random.default_rng(1).permutation(16 * matrices)  # rows anywhere
    shuffled = np.empty_like(memory)
    shuffled[order] = memory
    addresses = np.resize(order, 32) * 16
    found = load(f"ldmatrix.sync.aligned.m16n16.x{matrices}.trans.shared.{source}", shuffled, addresses, 2 * matrices)

    for number in range(2 * matrices):
        matrix = values[number // 2].T
        expected = matrix[(GROUP + 8 * (number % 2))[:, None], 4 * MEMBER[:, None] + np.arange(4)]
        np.testing.assert_array_equal(expected, found[number])


@pytest.mark.parametrize(("source", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_ldmatrix_m8n16_unpacks(source, bits, matrices):
    """Each element comes into the low bits of a byte; lane 4g + t holds columns 4t to 4t + 3 of row g."""
    values = np.random.default_rng(bits).integers(0, 1 << bits, (matrices, 8, 16))
    addresses = np.resize(np.arange(8 * matrices), 32) * 16
    instruction = f"ldmatrix.sync.aligned.m8n16.x{matrices}.shared::cta.b8x16.{source}"
    found = load(instruction, packed_rows(values.reshape(-1, 16), bits), addresses, matrices)

    for number in range(matrices):
        expected = values[number][GROUP[:, None], 4 * MEMBER[:, None] + np.arange(4)]
        np.testing.assert_array_equal(expected, found[number])


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_stmatrix_m16n8_stores_columns(matrices):
    """A 16x8 matrix held as an accumulator (rows g, g + 8; columns 2t, 2t + 1) lies in memory by columns of 16 bytes."""
    values = np.random.default_rng(3).integers(0, 256, (matrices, 16, 8)).astype(np.uint8)
    rows = GROUP[:, None] + np.array([0, 0, 8, 8])
    columns = 2 * MEMBER[:, None] + np.array([0, 1, 0, 1])
    held = {f"r{i}": np.ascontiguousarray(values[i][rows, columns]).view(np.uint32)[:, 0] for i in range(matrices)}
    order = np.random.default_rng(2).permutation(8 * matrices)
    names = ", ".join(held)
    result = warpsim.run(
        f"stmatrix.sync.aligned.m16n8.x{matrices}.trans.shared.b8 [p], {{{names}}};",
        registers={**held, "p": np.resize(order, 32) * 16},
        shared=np.zeros(128 * matrices, np.uint8),
        target="sm_100a",
    )
    expected = values.transpose(0, 2, 1).reshape(-1, 16)
    np.testing.assert_array_equal(expected, result.shared.reshape(-1, 16)[order])


@pytest.mark.parametrize(
    ("instruction", "target", "rule"),
    [
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [p];", "sm_90a", "target"),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [p];", "sm_120", "target"),
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {r0, r1}, [p];", "sm_120a", "illegal-form"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {r0, r1, r2, r3}, [p];", "sm_120a", "illegal-form"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b4x16_p64.b8x16 {r0}, [p];", "sm_120a", "illegal-form"),
        ("stmatrix.sync.aligned.m16n8.x4.shared.b8 [p], {r0, r1, r2, r3};", "sm_120a", "illegal-form"),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [p], {0, 0};", "sm_120a", "operand-type"),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [p], {r0, r1,};", "sm_120a", "syntax"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {_, _}, [p];", "sm_120a", "operand-type"),
        ("wmma .load.a.sync.aligned.row.m16n16k8.tf32 {r0, r1, r2, r3}, [q];", "sm_80", "syntax"),
        ("wmma.load.a.sync.aligned.row.m16n16k8.tf32 {r0, r1, r2, r3}, [q];", "sm_75", "target"),
    ],
)
def test_refused_at_load(instruction, target, rule):
    """What the assembler refuses is refused, under the rule that says why."""
    text = ".reg .b32 p, r<4>; .reg .b64 q; " + instruction
    with pytest.raises(warpsim.PtxError) as error:
        warpsim.run(text, target=target)

    assert rule == error.value.findings[0].rule
