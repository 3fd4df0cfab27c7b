"""Chains of f64 operations whose inputs are NaNs with bits of their own: which of them a GPU's results have.

operand_order.py FILE.npz     needs libcuda and NumPy only
"""

import random
import sys

import numpy as np

COUNT, INPUTS, RESULTS = 600, 6, 3
OPS = ["add", "add.rn", "sub", "sub.rn", "mul", "mul.rn", "fma.rn", "min", "max"]
STRAIGHT = ["arith", "arith", "neg", "abs", "mov", "bits", "halves", "param", "selp", "cvt"]
BRANCHES = ["guard", "if", "ifelse", "loop"]


class Program:
    """One chain; every third one in straight code alone."""

    def __init__(self, number):
        self.number, self.rng = number, random.Random(number)
        self.values = [f"x{k}" for k in range(INPUTS)]
        self.lines = [f"ld.global.f64 {x}, [%in+{8 * int(x[1])}];" for x in self.rng.sample(self.values, INPUTS)]
        if self.rng.random() < 0.3:  # two by one instruction
            at = next(k for k, line in enumerate(self.lines) if " x2," in line)
            self.lines = [line for line in self.lines if " x3," not in line and " x2," not in line]
            self.lines.insert(min(at, 4), "ld.global.v2.f64 {x2, x3}, [%in+16];")
        kinds = STRAIGHT if number % 3 else STRAIGHT + 2 * BRANCHES
        for at in range(self.rng.randrange(1, 6)):
            getattr(self, "_add_" + self.rng.choice(kinds))(f"AT{number}_{at}")
        self._add_arith("")
        self._add_arith("")
        for k, name in enumerate(self.values[-RESULTS:]):
            self.lines.append(f"st.global.f64 [%out+{8 * k}], {name};")

    def _pick(self):
        return self.rng.choice(self.values)

    def _new(self, text):
        name = f"y{len(self.values)}"
        self.lines.append(text.replace("NEW", name))
        self.values.append(name)

    def _operation(self, name, guard=""):
        op, terms = self.rng.choice(OPS), [self.rng.choice(self.values[-4:]), self._pick(), self._pick()]
        if self.rng.random() < 0.5:
            terms.reverse()
        return f"{guard}{op}.f64 {name}, {', '.join(terms if op == 'fma.rn' else terms[:2])};"

    def _add_arith(self, _):
        self._new(self._operation("NEW"))

    def _add_neg(self, _):
        self._new(f"neg.f64 NEW, {self._pick()};")

    def _add_abs(self, _):
        self._new(f"abs.f64 NEW, {self._pick()};")

    def _add_mov(self, _):
        self._new(f"mov.f64 NEW, {self._pick()};")

    def _add_bits(self, _):
        self._new(f"mov.b64 %q, {self._pick()}; mov.b64 NEW, %q;")

    def _add_halves(self, _):
        self._new(f"mov.b64 {{%l, %h}}, {self._pick()}; mov.b64 NEW, {{%l, %h}};")

    def _add_param(self, _):
        self._new("ld.param.f64 NEW, [z];")

    def _add_selp(self, _):
        self._new(f"selp.f64 NEW, {self._pick()}, {self._pick()}, %p;")

    def _add_cvt(self, _):
        self._new("cvt.rn.f64.s32 NEW, %n;")

    def _add_guard(self, _):
        self.lines.append(self._operation(self._pick(), self.rng.choice(["@%p ", "@!%p "])))

    def _add_if(self, label):
        self.lines.append(f"@{self.rng.choice(['', '!'])}%p bra {label};")
        self.lines.append(self._operation(self._pick()) + f" {label}:")

    def _add_ifelse(self, label):
        name = self._pick()
        self.lines.append(f"@%p bra {label}; {self._operation(name)} bra {label}E;")
        self.lines.append(f"{label}: {self._operation(name)} {label}E:")

    def _add_loop(self, label):
        self.lines.append(f"mov.u32 %i, %n; {label}: {self._operation(self._pick())}")
        self.lines.append(f"sub.u32 %i, %i, 1; setp.gt.s32 %again, %i, 0; @%again bra {label};")


def programs():
    """All of them."""
    return [Program(number) for number in range(COUNT)]


def kernel(program):
    """A kernel for one program: the GPU's compiler sees nothing else."""
    return f""".version 8.0
.target sm_90
.address_size 64
.visible .entry chain(.param .u64 a, .param .u64 b, .param .u32 n, .param .f64 z) {{
.reg .b64 %in, %out, %q; .reg .b32 %n, %i, %l, %h; .reg .pred %p, %again; .reg .f64 x<{INPUTS}>, y<20>;
ld.param.u64 %in, [a]; ld.param.u64 %out, [b]; ld.param.u32 %n, [n]; setp.gt.s32 %p, %n, 1;
{chr(10).join(program.lines)}
ret;
}}
"""


def inputs():
    """The NaNs in memory, and the parameter."""
    return np.arange(0x7FF8000000000010, 0x7FF8000000000010 + INPUTS, dtype=np.uint64), np.uint64(0x7FF8000000000055)


def main():
    """Run each program with n = 1 and n = 2."""
    import ctypes

    import record

    gpu, out = record.Gpu(), np.zeros((COUNT, 2, RESULTS), np.uint64)
    given, parameter = inputs()
    places = []
    for array in (given, out[0, 0]):
        place = ctypes.c_uint64()
        gpu("cuMemAlloc_v2", ctypes.byref(place), array.nbytes)
        places.append(place)
    gpu("cuMemcpyHtoD_v2", places[0], given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(given.nbytes))
    for program in programs():
        function = gpu.kernel(kernel(program).encode(), "chain")
        for n in (1, 2):
            values = (*places, ctypes.c_uint32(n), ctypes.c_uint64(int(parameter)))
            arguments = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
            gpu("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
            gpu("cuCtxSynchronize")
            result = np.zeros(RESULTS, np.uint64)
            gpu("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), places[1], ctypes.c_size_t(result.nbytes))
            out[program.number, n - 1] = result
    np.savez_compressed(sys.argv[1], bits=out)


if __name__ == "__main__":
    main()
