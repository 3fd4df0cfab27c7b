"""PTX of kernels that launch kernels. Registers: %d0 is the address of the results, %d2 a parameter buffer, %r3 the code of a launch."""

import warpsim
from ptx_text import module_head

TAIL, FORGET = 3, 4
RUNTIME = """
.extern .func (.param .b64 r) cudaGetParameterBufferV2(.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12],
    .param .b32 s);
.extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 p, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2GetLastError();
.extern .func (.param .b32 r) __cudaCDP2PeekAtLastError();
.extern .func (.param .b32 r) __cudaCDP2StreamCreateWithFlags(.param .b64 p, .param .b32 f);
.extern .func (.param .b32 r) __cudaCDP2MemsetAsync(.param .b64 p, .param .b32 v, .param .b64 n, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2MemcpyAsync(.param .b64 t, .param .b64 f, .param .b64 n, .param .b32 k, .param .b64 s);
"""
REGISTERS = ".reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<4>;\nld.param.u64 %d0, [out];\n"
NOTE = "atom.global.add.u32 %r1, [%d0], 1; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d1, %d0; st.global.u32 [%d1+4], {what};\n"


def buffer(kernel, grid=(1, 1, 1), block=(1, 1, 1), shared=0):
    """Get a parameter buffer in %d2."""
    dims = [
        f".param .align 4 .b8 {name}[12]; "
        + " ".join(f"st.param.b32 [{name}+{4 * i}], {n};" for i, n in enumerate(each))
        for name, each in (("g", grid), ("b", block))
    ]
    return f"""{{ .param .b64 f; .param .b32 s; .param .b64 r; {" ".join(dims)}
        mov.u64 %d3, {kernel}; st.param.b64 [f], %d3; st.param.b32 [s], {shared};
        call.uni (r), cudaGetParameterBufferV2, (f, g, b, s); ld.param.b64 %d2, [r]; }}\n"""


def launched(stream=0):
    """Launch the buffer in %d2; the code is in %r3."""
    return f"""{{ .param .b64 p; .param .b64 s; .param .b32 r; st.param.b64 [p], %d2; st.param.b64 [s], {stream};
        call.uni (r), cudaLaunchDeviceV2, (p, s); ld.param.b32 %r3, [r]; }}\n"""


def launch(kernel, stream=0, number=None, **shape):
    """Launch a kernel that takes ``out``, and perhaps a number."""
    given = "" if number is None else f"mov.u32 %r2, {number}; st.u32 [%d2+8], %r2;\n"
    return buffer(kernel, **shape) + f"st.u64 [%d2], %d0;\n{given}" + launched(stream)


def called(function, *arguments, result="%r4"):
    """Call a function of the device runtime whose arguments are named by their sizes: ``(8, "%d4")``."""
    given = "".join(f".param .b{8 * n} a{i}; st.param.b{8 * n} [a{i}], {v};\n" for i, (n, v) in enumerate(arguments))
    names = ", ".join(f"a{i}" for i in range(len(arguments)))
    return f"{{ {given} .param .b32 r; call.uni (r), {function}, ({names}); ld.param.b32 {result}, [r]; }}\n"


def error(which="Get"):
    """The last error, in %r4."""
    return called(f"__cudaCDP2{which}{'At' if which == 'Peek' else ''}LastError")


def source(**kernels):
    """The text of a module of kernels that take the address of the results and a number, in the order of the text."""
    text = module_head("sm_90a", "8.7") + RUNTIME
    for name, body in kernels.items():
        head, body = body if isinstance(body, tuple) else ("", body)
        params = ".param .u64 out" + (", .param .u32 n" if "[n]" in body else "")
        text += f".visible .entry {name}({params}) {head} {{ {REGISTERS}{body} ret; }}\n"
    return text


def module(**kernels):
    """It, loaded."""
    return warpsim.load(source(**kernels))
