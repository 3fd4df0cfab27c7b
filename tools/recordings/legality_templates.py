"""Templates of modules that ptxas accepts, and of what lies near them.

``<|a||b||c|>`` is a choice, which may hold others; the first alternative is the usual one. A template without ``.version``
gets a header, one without a function the body of a kernel around it, whose registers are named by their type.
"""

from __future__ import annotations

HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"
REGISTERS = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "x": "f16x2", "h": "b16", "q": "b64", "o": "b128", "p": "pred",
}  # fmt: skip
SYMBOLS = """.shared .align 128 .b8 smem[4096];
.global .align 128 .b8 gmem[4096];
.const .align 128 .b8 cmem[256];
"""
BODY = ".visible .entry k(.param .u64 prm)\n{\n.local .align 128 .b8 lmem[256];\n"

NUMBER = "<|4||0||1||2||3||-1||16||64||4294967295||4294967296||18446744073709551616||1.0||0x10||010||0b11||2+2||(4)||x||%r1||4U|>"
DIM = "<|[4]||||[]||[0]||[-1]||[2][3]||[][2]||[2][]||[][]||[2+2]||[(2)]||[4U]||[0x10]||[1.0]||[x]||[2][2][2][2]||<4>||<4>[2]|>"
TYPE = (
    "<|.b32||.u8||.s8||.b8||.u16||.s16||.b16||.u32||.s32||.u64||.s64||.b64||.f16||.f16x2||.f32||.f64||.pred||.b128||.bf16"
    "||.bf16x2||.tf32||.e4m3||.e4m3x2||.u4||.b1||.u128||.f8||.texture|||>"
)
ALIGN = "<||| .align 4|| .align 16|| .align 1|| .align 3|| .align 0|| .align -4|| .align|| .align 128|| .align 4096|| .align 65536|| .align 8 .align 8|| .align 2+2|| .align (8)|| .align 8U|>"
VECTOR = "<||| .v2|| .v4|| .v3|| .v8|| .v1|| .v2 .v2|>"
SPACE = "<|.global||.shared||.const||.local||.param||.reg||.sreg||.tex||.shared::cta||.generic|>"
LINKAGE = "<|||.visible ||.extern ||.weak ||.common ||.visible .extern ||.extern .visible ||.hidden |>"

DIRECTIVES = [
    '.version <|8.7||9.0||8||8.70||8.7.1||3.0||7.0||8.9||10.0||0.0||-8.7||08.7||8.07||"8.7"||||x|>\n.target <|sm_90a||sm_90||sm_80||sm_99||SM_90||compute_90||sm_90, texmode_independent||sm_90 debug||sm_90, sm_80||sm_90,||sm_90, map_f64_to_f32||sm_90, texmode_unified||sm_90, foo||sm_90, texmode_unified, texmode_independent||sm_100||sm_100a||sm_50||sm_75||sm_090|>\n.address_size <|64||32||16||0||-64||64.0||0x40||32+32|||>\n.entry k() { ret; }\n',
    '<|.version 8.7\n.target sm_90a\n.address_size 64||.version 8.7\n.address_size 64\n.target sm_90a||.target sm_90a\n.version 8.7\n.address_size 64||.version 8.7\n.target sm_90a||.version 8.7\n.version 8.7\n.target sm_90a||.version 8.7\n.target sm_90a\n.target sm_90a\n.address_size 64||.version 8.7\n.target sm_90a\n.address_size 64\n.address_size 64||.version 8.7||.target sm_90a||.address_size 64||.version 8.7 .target sm_90a .address_size 64||.version 8.7;\n.target sm_90a;\n.address_size 64;||.file 1 "a"\n.version 8.7\n.target sm_90a\n.address_size 64||.version 8.7\n.file 1 "a"\n.target sm_90a\n.address_size 64||.version 8.7\n.target sm_90a\n.file 1 "a"\n.address_size 64||.version 8.7\n.target sm_90a\n.global .u32 a;\n.address_size 64||.version\n8.7\n.target\nsm_90a\n.address_size\n64||// c\n.version 8.7 // c\n.target sm_90a /* c */\n.address_size 64|>\n.entry k()\n{\nret;\n}\n',
    "<|.entry||.visible .entry||.weak .entry||.extern .entry||.common .entry||.func||.visible .func||.weak .func||.kernel||.visible .visible .entry|> k(<|||.param .u64 a|>)\n<|"
    + "||".join(
        f".{name} {values}"
        for name, values in (
            (
                "maxntid",
                "<|128||32, 2||1,1,1||1, 1, 1, 1||0||0, 1, 1||-1||1024||1025||1024, 2||2048||65536||4294967295||4294967296||||x||1.0||0x20||(32)||32+32||32 32||32,||32U||1, 1, 65|>",
            ),
            (
                "reqntid",
                "<|128||32, 2||1,1,1||1, 1, 1, 1||0||0, 1, 1||-1||1024||1025||1024, 2||2048||65536||4294967296||||x||32 2||1,1,64||1,1,65|>",
            ),
            ("minnctapersm", "<|2||0||1||32||33||64||1000||-1||||1, 2||x|>"),
            ("maxnctapersm", "<|2||0||1||64||-1|||>"),
            ("maxnreg", "<|64||0||1||8||16||24||255||256||1000||-1||||32, 32|>"),
            ("reqnctapercluster", "<|2||1, 2, 1||0||0, 1, 1||1,0||8||9||16||17||1,1,1,1||-1||||4294967296|>"),
            ("maxclusterrank", "<|8||0||1||16||17||64||-1|||>"),
            ("explicitcluster", "<||| 1||,|>"),
            ("blocksareclusters", "<||| 1|>"),
            ("pragma", '<|"nounroll";||"nounroll"||nounroll;||"a", "b";||"unknown";||"";||"a" "b";||;|>'),
            ("noreturn", "<||| 1|>"),
            ("abi_preserve", "<|8||||0||-1|>"),
            ("abi_preserve_control", "<|2|||>"),
            ("unknown", "1"),
            ("align", "4"),
            ("local_maxnreg", "32"),
            ("alias", "k, k;"),
            ("loc", "1 1 1"),
        )
    )
    + "|>\n<|{\nret;\n}||;|||>\n",
    ".entry k()\n"
    + "\n".join(
        [
            '<|||.maxntid <|128||32, 4||1024||64||1,1,512|>||.reqntid <|128||32,4||64||256|>||.minnctapersm <|1||2||16|>||.maxnreg <|32||64|>||.reqnctapercluster <|2||4||0|>||.explicitcluster||.maxclusterrank <|8||2|>||.blocksareclusters||.maxnctapersm <|2||1|>||.pragma "nounroll";|>'
        ]
        * 3
    )
    + "\n{\nret;\n}\n",
    ".visible .func <|||(.param .b32 r)||(.reg .b32 r)|> f<|()||(.param .b32 a)|||>\n"
    + "\n".join(
        [
            '<|||.noreturn||.maxnreg 32||.maxntid 32||.reqntid 32||.abi_preserve 8||.abi_preserve_control 2||.pragma "nounroll";||.minnctapersm 1|>'
        ]
        * 2
    )
    + "\n{\n<|ret;||exit;||trap;||||bra L;\nL:|>\n}\n",
    '<|.file 1 "a.cu"||.file 1 "a.cu", 10, 20||.file 1 "a.cu", 10||.file 0 "a.cu"||.file "a.cu"||.file 1||.file -1 "a"||.file 1 a.cu||.file 1 "a.cu";||.file||.file 1 "a.cu" 10 20||.file 1 "a"\n.file 1 "b"||.file 1 "a"\n.file 1 "a"||.file 1\n"a"||.file 2 "b"||.file 1 "a" .file 2 "b"|>\n.entry k()\n{\n<|.loc 1 2 3||.loc 1 2||.loc 1||.loc||.loc 3 2 3||.loc 1 2 3;||.loc 1, 2, 3||.loc 1 -2 3||.loc 1 2 3 4||.loc 1 0 0||.loc 0 1 1||.loc 1 2 3, function_name L, inlined_at 1 2 3||.loc 1 2 3 function_name L inlined_at 1 2 3||.loc 1 2 3, inlined_at 1 2 3||.loc x 2 3||.loc 1\n2 3||.loc 1 2 3 ret; ret;||.file 1 "b"|>\nret;\n}\n<|||.section .debug_str { L: .b8 65,0 }||.loc 1 2 3||.section .debug_str\n{\n.b8 0\n}|>\n',
    '.entry k()\n{\nret;\n}\n<|.pragma "nounroll";||.pragma "nounroll"||.pragma nounroll;||.pragma;||.pragma "a", "b";||.pragma "a" "b";||;||.pragma "a",;||ret;||}||{ }||L:||.alias k, k;||.maxntid 32||.reg .b32 r;||.branchtargets a;||.b32 5||.section x { }||.section .debug_x { .b8 1 }||.section .debug_str { .b32 x }||.section .debug_str||.section { .b8 1 }||.section .debug_info { .b64 k }||.section .debug_info { .b32 .debug_str }||.section .debug_info { .b32 .debug_str+5 }||.section .debug_info { .b8 256 }||.section .debug_info { .b8 -129 }||.section .debug_info { .b8 1, 2, 3\n.b16 4 }||.section .debug_info { .f32 1.0 }||.section .debug_info { ret; }||@@DWARF x||.noreturn||.visible|>\n',
    ".func <|f||g||h|>() { ret; }\n.func <|(.param .b32 r) |||>g<|()||||(.param .b32 a)|>;\n.alias <|g, f||f, g||g||g, f, f||g, g||g f||x, f||g, x||g, k|>;\n.entry k()\n{\ncall g;\nret;\n}\n<|||.alias g, f;|>\n",
    "<|.weak .func g()\n{\nret;\n}||.func g()\n{\nret;\n}||.visible .func g()\n{\nret;\n}||.extern .func g();||.func g();||.visible .func g();||.func g()||.extern .func g()||.common .func g();||.extern .func g()\n{\nret;\n}||.extern .func g();\n.func g()\n{\nret;\n}||.func g();\n.func g()\n{\nret;\n}||.func g();\n.visible .func g()\n{\nret;\n}||.visible .func g();\n.func g()\n{\nret;\n}||.func g();\n.func g(.param .b32 a)\n{\nret;\n}||.func g(.param .b32 a);\n.func g(.param .b32 b)\n{\nret;\n}||.func g(.param .b32 a);\n.func g(.param .u32 b)\n{\nret;\n}||.func g(.param .b32 a);\n.func g(.reg .b32 b)\n{\nret;\n}||.func (.param .b32 r) g();\n.func g()\n{\nret;\n}||.func g();\n.func g();||.func g()\n{\nret;\n}\n.func g()\n{\nret;\n}||.func g()\n{\nret;\n}\n.func g();||.func g();\n.entry g()\n{\nret;\n}||.global .u32 g;\n.func g()\n{\nret;\n}||.func g()\n{\nret;\n}\n.global .u32 g;||.entry g();||.entry g();\n.entry g()\n{\nret;\n}|>\n.entry k()\n{\nret;\n}\n",
    '.global .u32 g;\n.entry k()\n{\n<|||.reg .b32 r;||.reg .b64 q;||ret;|>\n<|L: .branchtargets a, b;||.branchtargets a;||L: .branchtargets;||L: .branchtargets a,;||L: .branchtargets a, a;||L: .branchtargets zzz;||L: .branchtargets g;||L:\n.branchtargets a, b||L: M: .branchtargets a;||L: .calltargets k;||L: .calltargets zzz;||L: .calltargets;||L: .calltargets g;||L: .calltargets a;||.calltargets k;||L: .pragma "nounroll";||.pragma x;||.maxntid 32;||.visible .reg .b32 x;||.extern .shared .b8 x[];||.weak .global .u32 x;||.file 1 "a"||.section .debug_x { .b8 1 }||.entry j() { ret; }||.func j() { ret; }||.version 8.7||.address_size 64||.align 4;||;||;;||L: M: N:||L: L:||{ L: }||{ }||{ { { } } }||{ L: } { L: }||L: { L: }||a: ret;||}|>\na:\nb:\nret;\n}\n',
    '.entry k()\n{\n.reg .b32 i;\n.reg .pred p;\nmov.u32 i, 0;\n<|||mov.u32 i, 1;|>\n<|||.pragma "nounroll";||<|@p ||@!p ||@i ||@zzz ||@ p ||@p, ||@!!p ||@1 ||@p @p |>|> <|bra a;||bra b;||bra.uni a;||bra zzz;||bra;||bra a, b;||bra i;||bra k;||bra 5;||bra [a];||bra.foo a;||bra a+4;||ret;||ret.uni;||ret i;||exit;||exit.uni;||exit 1;||trap;||trap 1;||brkpt;||brx.idx i, T;||brx.idx.uni i, T;||brx.idx i;||brx.idx 0, T;||brx.idx T, i;||brx.idx p, T;||brx.idx i, a;||brx i, T;|>\nT: .branchtargets a, b;\n<|||brx.idx i, T;||brx.idx.uni i, T;||brx.idx 1, T;||brx.idx i, a;||brx.idx p, T;|>\na:\nb:\nret;\n}\n',
]

DECLARATIONS = [
    f"{LINKAGE}{SPACE}{ALIGN}{VECTOR} {TYPE} x{DIM}<|;||||,|>\n.entry k()\n{{\nret;\n}}\n",
    f"{LINKAGE}{SPACE}{ALIGN} {TYPE} x{DIM};\n.entry k()\n{{\nret;\n}}\n",
    f"{SPACE}{VECTOR}{ALIGN} {TYPE} x;\n.entry k()\n{{\nret;\n}}\n",
    f".entry k()\n{{\n<|.reg||.shared||.local||.param||.global||.const||.sreg|>{ALIGN}{VECTOR} {TYPE} x{DIM}<|||, y||, y[4]||,||, x|>;\nret;\n}}\n",
    f".entry k()\n{{\n<|||.extern ||.visible ||.weak ||.common |><|.reg||.shared||.local||.param||.global||.const|>{ALIGN} {TYPE} x{DIM};\nret;\n}}\n",
    f".entry k()\n{{\n<|.reg||.shared||.local||.global|> {TYPE} x{DIM}, y{DIM};\nret;\n}}\n",
    f".entry k(<|.param||.reg||.shared||.local||.global|||>{ALIGN}{VECTOR} {TYPE}<||| .ptr|| .ptr .global|| .ptr .global .align 8|| .ptr .align 16|| .ptr .shared .align 3|| .ptr .local|| .ptr .const|| .ptr .param|| .ptr .reg|| .global .ptr|| .ptr .ptr|| .ptr .align|| .ptr .align 0|> x{DIM}<|||, .param .b32 y||, .param .b32 x||,||, y||; .param .b32 y|>)\n{{\nret;\n}}\n",
    f".func <|||(<|.param||.reg||.local|>{ALIGN}{VECTOR} {TYPE} x{DIM}) ||(.param .b32 r, .param .b32 s) ||() ||(.reg .b32 r, .reg .b32 s) |>f(<|.param||.reg||.shared|>{ALIGN}{VECTOR} {TYPE} y{DIM})\n{{\nret;\n}}\n",
    '.entry k()\n{\n.reg .b32 <|%r<4>||r||%r<0>||%r<-1>||%r<4294967296>||%r<1.0>||%r<x>||%r<>||%r<4||%r<2+2>||%r<(4)>||%r<4>, %s<4>||%r<4>, %r<4>||%r<4>, %r1||%r1, %r<4>||%r1<4>||r.x||1r||$||_||%||_r||$r||%r||r%||r$||.r||%tid||%laneid||tid||WARP_SZ||ret||add||mov||bra||p||generic||%r<4> = 1||%clock||%envreg0||k||%p<0x4>||%p<4U>||r-s||r s||"r"||if||while||double||sizeof||%%r||$$||__r||_1||%1||$1|>;\n<|||.reg .b32 r;||.reg .b32 %r1;||.reg .b32 %r<2>;||.reg .b64 %r5;||{\n.reg .b32 r;\n}||.shared .b32 r;||r:||.reg .b32 k;|>\nret;\n}\n',
    '.global .b32 <|x||%x||$x||_x||_||%||$||1x||x.y||x-y||add||ret||generic||WARP_SZ||%tid||%r1||x<2>||x, y||x, x||x y||.x||k||"x"||x[2], y[3]||x[2], y = 5||sizeof||%clock|>;\n<|||.global .b32 x;||.extern .global .b32 x;||.visible .global .b32 x;||.weak .global .b32 x;||.shared .b32 x;||.const .b32 x;||.global .b64 x;||.common .global .b32 x;|>\n.entry k()\n{\n<|||.reg .b32 x;||.shared .b32 x;||x:|>\nret;\n}\n',
    "<|||.extern ||.common ||.weak ||.visible |>.global .b32 x<|||[4]||[]||[0]|>;\n<|||.extern ||.common ||.weak ||.visible |>.global <|.b32||.u32||.b64|> x<|||[4]||[]||[8]|>;\n.entry k()\n{\nret;\n}\n",
    "<|||.visible ||.weak |><|.global||.const||.shared|> <|.attribute(.managed)||.attribute(.unified(1, 2))||.attribute()||.attribute(.foo)||.attribute||.attribute(managed)||.attribute(.managed, .managed)||.attribute(.unified(1))||.attribute(.unified(1,2,3))||.attribute(.unified)||.attribute(.unified(-1,2))||.attribute(.managed(1))||.attribute(.managed)\n.align 8|> <|.b32||.align 8 .b32|> x;\n.entry k()\n{\nret;\n}\n",
    ".global .b32 <|.attribute(.managed)||.align 8|> x;\n.visible .func <|||.attribute(.managed) |>f() { ret; }\n.entry k()\n{\nret;\n}\n",
    "<|.extern||.visible||.common||.weak|||> <|.shared||.global||.const||.local|> .align <|16||128||1024||8192|> .b8 x[<|||0||16||49152||49153||65536||65537||232448||232449||300000||4294967295||1099511627776||9223372036854775807||9223372036854775808|>];\n.entry k()\n{\n.reg .b64 q;\n<|||mov.u64 q, x;||cvta.global.u64 q, x;||cvta.shared.u64 q, x;|>\nret;\n}\n",
    ".entry k(<|.param .b8 a[4]||.param .align 8 .b8 a[4096]||.param .b8 a[4352]||.param .b8 a[32764]||.param .b8 a[32765]||.param .b8 a[4294967296]||.param .b64 a, .param .align 16 .b8 b[32748]||.param .b64 a, .param .align 16 .b8 b[32752]||.param .b8 a[]||.param .b8 a[0]||.param .b32 a[2][2]||.param .f16 a||.param .pred a||.param .b128 a||.param .align 128 .b8 a[4]||.param .align 256 .b8 a[4]||.param .v2 .b32 a||.param .u64 .ptr a[2]||.param .b64 a, b|>)\n{\n<|.local .b8 l[16];||.local .b8 l[524288];||.local .b8 l[524289];||.local .b8 l[16777216];||.shared .b8 l[49152];||.shared .b8 l[49153];||.shared .b8 l[232449];||.local .b8 l[4294967296];|>\nret;\n}\n",
    ".entry k()\n{\n.reg .v<|2||4||3||8||1||0||16|> <|.f32||.b32||.f64||.b64||.b16||.pred||.b8||.u8||.b128||.f16x2||.f16|> <|v||v<2>||v, w||v[2]|>;\n.reg .f32 f; .reg .f64 d;\n<|||mov.f32 f, v.<|x||y||w||r||a||u|>;||mov.f64 d, v.y;||mov.b32 v.x, f;||mov.v2.f32 v, {f, f};||mov.v4.f32 {f,f,f,f}, v;||ld.global.v2.f32 v, [d];||mov.f32 f, v0.x;||mov.f32 f, v;|>\nret;\n}\n",
]

VALUE = (
    "<|1||0||-1||255||256||-128||-129||65535||65536||4294967295||4294967296||-2147483648||-2147483649||18446744073709551615"
    "||18446744073709551616||-9223372036854775808||-9223372036854775809||1.0||-1.0||1.5e3||1e400||0f3F800000||0d3FF0000000000000"
    "||0f3F80||0x1F||0X1f||010||08||0b101||0b2||1U||0xFFU||-0x80||+1||~0||!0||(1+2)*3||1+2||7/2||7/0||7%0||1<<3||1<<64||5>2||1?2:3"
    "||1.0+2.0||1/2.0||1.0/0.0||x||x+4||x-4||4+x||generic(x)||generic(x)+8||generic(x+8)||generic(y)||0xFF(x)||0xFF00(x)"
    "||0xFF(generic(x))||0xFF(x+4)||0xF(x)||0xFF0000(x)||255(x)||y||k||f||\"abc\"||'a'||_||{}||{1}||{1,2}||WARP_SZ||%r1||(.s64)1"
    "||(.u64)-1||-(1)||- 1||--1||1 2||.5||5.||1e3||0x||0f||true||-x||x+y||x*2||x+-4||x[1]||mask(x)||0xFFFFFFFF(x)||-0f3F800000|>"
)
INITIALISERS = [
    f".global .u32 x;\n.func f() {{ ret; }}\n<|.global||.const||.shared||.local||.extern .global||.visible .global||.weak .global||.common .global|> <|.u32||.u64||.b8||.u8||.s8||.b16||.u16||.s16||.b32||.s32||.b64||.s64||.f32||.f64||.f16||.f16x2||.b128||.pred|> z = {VALUE};\n.global .u32 y;\n.entry k()\n{{\nret;\n}}\n",
    f'.global .u32 x;\n.global <|.u32||.u64||.b8||.u8||.s8||.b16||.b32||.b64||.f32||.f64|> z<|[4]||[2]||[]||[2][2]||[][2]||[0]||[1]||[2][]|> = <|{{{VALUE}, {VALUE}}}||{{1, 2}}||{{1,2,3,4}}||{{1,2,3,4,5}}||{{{{1,2}},{{3,4}}}}||{{{{1,2,3}},{{3,4}}}}||{{{{1}},{{3}}}}||{{1,{{2,3}}}}||{{{{1,2}},3}}||{{1,2,}}||{{,1}}||{{}}||1||{{1 2}}||{{{{{{1}}}}}}||{{1,2||"ab"||{{1;2}}||{{1,2,3}}||{{{{1,2}},{{3,4}},{{5,6}}}}|>;\n.entry k()\n{{\nret;\n}}\n',
    "<|.global||.const|> .v<|2||4|> <|.f32||.u32||.b8||.f64|> z<|||[2]||[]|> = <|{1.0, 2.0}||{1, 2}||1||{1,2,3,4}||{{1,2},{3,4}}||{{1.0,2.0},{3.0,4.0}}||{1,2,3,4,5}||{1}|>;\n.entry k()\n{\nret;\n}\n",
    ".global <|.u64||.u32||.b64||.b8||.s64||.f64||.u16|> z<|||[2]||[8]|> = <|k||f||{k, f}||{f, k}||{generic(f)}||{0xFF(f)}||{f+8}||g||z||{z}||generic(z)||c||generic(c)||s||generic(s)||l||f()||0xFF(f)||0xFF(c)||{0xFF(c), 0xFF00(c), 0xFF0000(c)}||{0xFF(g), 0xFF00(g), 0xFF0000(g), 0xFF000000(g), 0xFF00000000(g), 0xFF0000000000(g), 0xFF000000000000(g), 0xFF00000000000000(g)}|>;\n",
]
_DECLARED = ".const .u32 c;\n.shared .u32 s;\n.global .u32 g;\n.func f()\n{\nret;\n}\n"
INITIALISERS[3] = _DECLARED + INITIALISERS[3] + ".entry k()\n{\nret;\n}\n"
INITIALISERS[3] = INITIALISERS[3].replace("{k, f}||", "")
INITIALISERS += [
    f".entry k()\n{{\n<|.global||.const||.shared||.local||.reg||.param|> <|.u32||.b8||.f32||.u64|> z<|||[2]|> = {VALUE};\nret;\n}}\n",
    f".global .u32 x;\n.global <|.u64||.b32||.f32||.f64|> z = 1, w = {VALUE};\n.entry k()\n{{\nret;\n}}\n",
]

PROTO_PARAM = "<|.param .b32 _||.param .b32 a||.reg .b32 _||.param .b64 _||.param .align 8 .b8 _[16]||.param .b8 _[]||.param .f32 _||.param .u32 _||.param .align 16 .b8 _[4]||.reg .b64 _||.param .pred _||.reg .pred _||.b32 _||.param _||.param .b32||.shared .b32 _||.param .v2 .b32 _||.param .f16 _||.param .b16 _|>"
PROTOTYPES = [
    f".func (.param .b32 r) f(.param .b32 a)\n{{\nret;\n}}\n.entry k()\n{{\n.reg .b32 r; .reg .b64 q;\n.param .b32 x, y;\nmov.u64 q, f;\n<|P: ||||P:\n||P: Q: |>.callprototype <|({PROTO_PARAM}) ||||() ||(.param .b32 _, .param .b32 _) |><|_||f||P||||__|> <|({PROTO_PARAM})||({PROTO_PARAM}, {PROTO_PARAM})||()||||({PROTO_PARAM},)|><||| .noreturn|| .abi_preserve 8|| .maxnreg 32|| .noreturn .noreturn|| .abi_preserve_control 2|><|;|||>\n<|call (x), q, (y), P;||call (x), q, (y);||call (r), q, (r), P;||call q, P;||call (x), q, P;||call q, (y), P;||call (x), q, (y), Z;||call (x), q, (y), k;||call (x), q, (y, y), P;||call.uni (x), q, (y), P;||call (x), r, (y), P;||call (x), f, (y), P;||call (_), q, (y), P;||call (x), [q], (y), P;||call (x), q, y, P;||call x, q, (y), P;||call (x), q, (5), P;||call (x) q, (y), P;||call (x), q (y), P;||call (x), q, (y) P;||ret;|>\nret;\n}}\n",
    ".func (.param .b32 r) f(.param .b32 a)\n{\nret;\n}\n.func g()\n{\nret;\n}\n.entry k()\n{\n.reg .b32 r; .reg .b64 q;\n.param .b32 x, y;\nmov.u64 q, f;\n<|T: .calltargets f;||T: .calltargets f, f;||T: .calltargets f, g;||T: .calltargets g;||T: .calltargets k;||T: .calltargets z;||T: .calltargets;||.calltargets f;||T: .calltargets f, ;||T: .calltargets q;||T: .calltargets (f);||T: .calltargets f|>\n<|call (x), q, (y), T;||call (x), q, (y);||call q, T;||call (x), f, (y), T;||call (x), q, (y), f;||call (x), q, (y), y;||call (r), q, (r), T;||call (x), q, (5), T;|>\nret;\n}\n",
    ".func f()\n{\nret;\n}\n.entry k()\n{\n.reg <|.b64||.u64||.s64||.b32||.f64||.u32||.b16||.b128||.pred|> q;\n<|mov.u64 q, f;||mov.b64 q, f;||mov.s64 q, f;||mov.u32 q, f;||mov.u64 q, k;||mov.u64 q, zzz;||cvta.global.u64 q, f;||ld.global.u64 q, [f];||st.global.u32 [f], 1;||mov.u64 q, [f];||mov.u64 f, q;|>\nP: .callprototype _ ();\n<|call q, P;||call q, (), P;||call q, P, P;||call q;||call (q), P;||call q, ();||call (), q, (), P;||call.uni q, P;||call.foo q, P;||call q P;||call P, q;||call;||@q call q, P;|>\nret;\n}\n",
    ".entry k()\n{\n.reg .b64 q;\n<|||call q, P;|>\n<|P: .callprototype _ ();||P: .callprototype _;||P: .callprototype (.param .b32 _) _;||P: .callprototype ();||P: .callprototype;||P: .callprototype _ (.param .b32 x, .param .b32 x);||P: .callprototype _ (.param .b32 x, .param .b32 y);||P: .callprototype (.param .b32 x) _ (.param .b32 x);||P: .callprototype _ (.param .b8 _[4][4]);||P: .callprototype _ () { ret; }||P: .callprototype _ (.param .b8 _[0]);||P: .callprototype _ (.param .align 3 .b8 _[4]);|>\n<|call q, P;||call q, (), P;||ret;|>\n<|||P: .callprototype _ ();|>\nret;\n}\n",
]

FORMAL = "<|.param .b32||.param .u32||.param .f32||.param .b64||.param .f64||.param .b8||.param .b16||.param .u16||.param .s8||.reg .b32||.reg .u32||.reg .f32||.reg .b64||.reg .f64||.reg .pred||.reg .b16||.param .f16||.reg .f16|>"
ACTUAL = "<|x||y||r||u||f||q||d||p||h||w||bb||5||-1||1.0||0f3F800000||_||!p||[x]||x+4||sh||gl||fn||zzz||arr||%tid.x||{r,r}||v|>"
_CALLER = ".entry k()\n{\n.reg .b32 r; .reg .u32 u; .reg .f32 f; .reg .b64 q; .reg .f64 d; .reg .pred p; .reg .b16 h; .reg .b8 bb; .reg .v2 .b32 v;\n.param .b32 x; .param .u32 y; .param .b64 w; .param .align 8 .b8 arr[16]; .shared .b32 sh;\n"
CALLS = [
    f".global .u32 gl;\n.func (<|{FORMAL}|> a) fn(<|{FORMAL}|> b)\n{{\nret;\n}}\n{_CALLER}<|||@p ||@!p |>call<|||.uni||.foo|> <|({ACTUAL}), fn, ({ACTUAL});||({ACTUAL}), fn, ({ACTUAL});||({ACTUAL}), fn, ({ACTUAL});||fn, ({ACTUAL});||({ACTUAL}), fn;||({ACTUAL}, x), fn, ({ACTUAL});||(x), fn, ({ACTUAL}, {ACTUAL});||fn;||(), fn, ();||(x), k, (y);||(x), zzz, (y);||(x), x, (y);||(x) fn (y);||(x), fn, y;||x, fn, (y);||(x), fn, (y),;||(x,), fn, (y);||(x), (fn), (y);||(x), fn+4, (y);||(x), fn, (y), (y);|>\nret;\n}}\n",
    f".global .u32 gl;\n.func fn(<|{FORMAL}|> b)\n{{\nret;\n}}\n{_CALLER}call fn, (<|{ACTUAL}|>);\nret;\n}}\n",
    f".global .u32 gl;\n.func (<|{FORMAL}|> a) fn()\n{{\nret;\n}}\n{_CALLER}call (<|{ACTUAL}|>), fn;\nret;\n}}\n",
    ".func (.param .align <|8||4||16|> .b8 r[<|16||8||32||4|>]) fn(.param .align <|8||4||16|> .b8 a[<|16||8||32||4||12|>])\n{\nret;\n}\n.entry k()\n{\n.param .align <|8||4||16|> .b8 x[<|16||8||32||12|>]; <|.param||.local||.shared|> .align <|8||4||16|> .b8 y[<|16||8||32||12|>];\n<|||st.param.b32 [y], 1;||st.param.b64 [y+8], 1;||st.param.b32 [y+16], 1;||st.param.b8 [y+3], 1;|>\ncall (x), fn, (y);\nret;\n}\n",
    ".func fn(.param .b32 a, .param .<|b32||b64||f32|> b<|||, .param .b32 c||, .reg .b32 c|>)\n{\nret;\n}\n.entry k()\n{\n.reg .b32 r;\n.param .b32 x<|||, z|>; .param .<|b32||b64||f32||u32|> y;\ncall fn, (<|x, y||y, x||x||x, y, x||x, x||r, r||x, y, r||x, y, 5||r, y||x,, y||x y||(x, y)||x, y, z|>);\nret;\n}\n",
    "<|.extern ||||.visible ||.weak |>.func <|||(.param .b32 r) |>g(<|.param .b32 a||||.param .b64 a|>);\n.entry k()\n{\n.param .b32 x; .reg .b32 r;\n<|call g, (x);||call (x), g, (x);||call g;||ret;||call h;||call g, (r);|>\nret;\n}\n<|||.func h() { ret; }||.func g(.param .b32 a) { ret; }|>\n",
    ".func <|||(.reg .b32 r) ||(.param .b32 r) |>f(<|.reg .b32 a||.param .b32 a||||.reg .b32 a, .param .b32 b||.reg .b32 r|>)\n{\n.reg .b32 t;\n<|||mov.b32 r, a;||mov.b32 t, a;||mov.b32 a, t;||ld.param.b32 t, [a];||st.param.b32 [r], t;||st.param.b32 [a], t;||ld.param.b32 t, [r];||ld.param.b32 t, [a+4];||mov.u64 t, a;||call f;||ret.uni;||.reg .b32 a;||.param .b32 a;||{ .reg .b32 a; }||mov.b32 t, r;||ld.param::func.b32 t, [a];||ld.param::entry.b32 t, [a];||st.param::func.b32 [r], t;|>\nret;\n}\n.entry k()\n{\nret;\n}\n",
    ".entry k(.param .b32 a, .param .align 8 .b8 b[16])\n{\n.reg .b32 r; .reg .b64 q; .reg .f32 f; .reg .b16 h;\n<|ld.param.b32 r, [a];||ld.param.b32 r, [b+4];||ld.param.b32 r, [b+16];||ld.param.b32 r, [a+4];||ld.param.b32 r, [a-4];||ld.param.b32 r, [a+-4];||ld.param.b64 q, [a];||ld.param.u8 h, [b+3];||ld.param.v2.b32 {r,r}, [b];||ld.param.v4.b32 {r,r,r,r}, [b];||ld.param.v2.b64 {q,q}, [b];||st.param.b32 [a], r;||ld.b32 r, [a];||mov.b32 r, a;||mov.b64 q, a;||mov.b64 q, b;||mov.b64 q, b+8;||cvta.param.u64 q, a;||cvta.param.u64 q, b;||ld.param::entry.b32 r, [a];||ld.param::func.b32 r, [a];||ld.param.b32 r, [q];||ld.param.b32 r, [r];||ld.param.b32 r, [4];||ld.global.b32 r, [a];||ld.volatile.param.b32 r, [a];||ld.param.b32 r, a;||ld.param.b32 r, [zzz];||ld.param.b32 5, [a];||add.u32 r, a, 1;||st.param::func.b32 [a], r;||atom.add.u32 r, [a], 1;|>\nret;\n}\n",
]

ADDRESS = "<|[q]||[q+16]||[q+-16]||[q-16]||[b]||[b+16]||[gmem]||[gmem+16]||[smem]||[smem+16]||[cmem]||[lmem]||[lmem+8]||[prm]||[16]||[0]||[-16]||[f]||[d]||[p]||[h]||[o]||[uq]||[s0]||[q0+q1]||[q0+b0]||[zzz]||q0||gmem||[gmem+b0]||[q0+x]||[q0+9223372036854775807]||[q0+9223372036854775808]||[q0+18446744073709551616]||[q0+4294967296]||[q0+-2147483649]||[gmem[4]]||[q0, 4]||[{q0}]||[k]||[%tid.x]||[x]||[q0 + 4*2]||[q0+1.0]||[]||[!p0]||[_]||[q0]+4|>"
for _name in ("q", "b", "f", "d", "p", "h", "o", "uq"):
    ADDRESS = (
        ADDRESS.replace(f"[{_name}]", f"[{_name}0]")
        .replace(f"[{_name}+", f"[{_name}0+")
        .replace(f"[{_name}-", f"[{_name}0-")
    )
VALUES = "<|b0||u0||s0||f0||q0||d0||h0||uh0||hf0||x0||bb0||o0||p0||5||-1||1.0||0f3F800000||0d3FF0000000000000||_||gmem||smem||prm||%tid.x||%tid||%laneid||%clock64||WARP_SZ||{b0,b1}||{f0,f1}||{b0}||zzz||!0||-b0||b0.x||4294967296||gmem+4||lmem||!b0||~b0||(b0)||1+1|>"
SPACES = "<|.global||||.shared||.local||.const||.param||.shared::cta||.shared::cluster||.reg||.sreg||.tex||.generic||.global.shared||.param::entry||.param::func|>"
MTYPE = "<|.b32||.u8||.s8||.b8||.u16||.s16||.b16||.u32||.s32||.u64||.s64||.b64||.f32||.f64||.f16||.bf16||.f16x2||.pred||.b128||.tf32||.u128||.b4|||>"
VECS = "<|||.v2||.v4||.v8||.v3||.v1|>"
_TUPLES = "<|b0||{b0,b1}||{b0,b1,b2,b3}||{f0,f1}||{q0,q1}||{q0,q1,q2,q3}||{b0,b0}||{b0,_}||{_,_}||{h0,h1}||{b0,q0}||{b0,5}||{5,5}||{b0,b1,b2}||{}||{b0,b1,b2,b3,b4,b5,b6,b7}||f0||q0||u0|>"
MOVEMENT = [
    f"mov{MTYPE} {VALUES}, {VALUES};",
    f"mov<|.u32||.b32||.s32||.u64||.b64||.f32||.f64||.b16||.u16||.pred||.b128|> <|b0||u0||q0||f0||d0||h0||p0||o0||uq0|>, {VALUES};",
    "mov<|.b64||.b32||.b128||.b16||.u64||.f64||.v2.b32||.v4.b32||.v2.f32|> <|q0||b0||o0||h0||{b0,b1}||{h0,h1}||{q0,q1}||{f0,f1}||{h0,h1,h2,h3}||{b0,b1,b2,b3}||{b0,_}||{_,b0}||d0|>, <|q0||b0||o0||{b0,b1}||{h0,h1}||{q0,q1}||{5,6}||{b0,6}||{f0,f1}||{h0,h1,h2,h3}||{b0,b1,b2,b3}||{b0,_}||{bb0,bb1,bb2,bb3}||5||d0|>;",
    f"ld<|||.volatile||.relaxed.gpu||.acquire.sys||.weak||.acquire||.relaxed||.release.gpu||.mmio.relaxed.sys||.relaxed.cta||.volatile.relaxed.gpu||.relaxed.foo|>{SPACES}<|||.ca||.cg||.cs||.lu||.cv||.nc||.wb||.ca.nc||.L1::evict_last||.L1::no_allocate||.L2::128B||.L2::64B||.L1::evict_last.L2::128B||.L2::32B||.L2::evict_last|>{VECS}{MTYPE} {_TUPLES}, {ADDRESS};",
    f"ld{SPACES}{VECS}{MTYPE} {_TUPLES}, {ADDRESS};",
    f"ld.global{VECS}{MTYPE} <|b0||f0||q0||h0||d0||x0||u0||uq0||hf0||p0||bb0||5||_||o0|>, [q0];",
    f"st<|||.volatile||.relaxed.gpu||.release.sys||.weak||.acquire.sys||.release||.mmio.relaxed.sys|>{SPACES}<|||.wb||.cg||.cs||.wt||.ca||.nc||.L1::evict_last||.L1::no_allocate||.L2::128B|>{VECS}{MTYPE} {ADDRESS}, {_TUPLES};",
    f"st{SPACES}{MTYPE} {ADDRESS}, {VALUES};",
    f"st.global{VECS}{MTYPE} [q0], <|{VALUES}||{_TUPLES}|>;",
    f"<|ldu||ld||ldu.global||ldu.shared|>{VECS}<|.global||||.shared|>{MTYPE} b0, {ADDRESS};",
    f"cvta<|||.to|>{SPACES}<|.u64||.u32||.s64||.b64||.u16||.f64|||> <|q0||b0||uq0||sq0||f0||d0||5||_|>, <|q1||b0||gmem||smem||cmem||lmem||prm||5||0||[q0]||zzz||k||f0||d0|>;",
    f"isspacep{SPACES} <|p0||b0||_||p0|p1|>, <|q0||b0||gmem||smem||5||f0||d0||uq0|>;",
    f"cp.async<|.ca||.cg||||.cs|><|.shared.global||.shared::cta.global||.global.shared||.shared::cluster.global||.shared||.shared.shared|||><|||.L2::128B||.L2::cache_hint||.L2::32B|> {ADDRESS.replace('[q]||', '[b0]||[q0]||', 1)}, {ADDRESS}, <|16||4||8||12||0||32||b0||-1||16.0||4, 2||16, 0||16, 16||16, 17||16, b0||16, p0||4, b1||16, q0||16, !p0||16, 8, p0||16, q0||16, 8, q0||4+4||8U|>;",
    "cp.async.<|commit_group||wait_all||wait_group 0||wait_group 1||wait_group||wait_group b0||wait_group -1||wait_group 4294967296||wait_group 100||commit_group 1||wait_all 0||mbarrier.arrive.shared.b64 [b0]||mbarrier.arrive.noinc.shared.b64 [b0]||mbarrier.arrive.b64 [q0]||mbarrier.arrive.noinc.b64 [smem]||mbarrier.arrive.shared.noinc.b64 [b0]||mbarrier.arrive.shared::cta.b64 [b0]||mbarrier.arrive.shared::cluster.b64 [b0]||mbarrier.arrive.global.b64 [q0]||wait_group 1+1||foo|>;",
    "cp.async.bulk<|.shared::cluster.global||.shared::cta.global||.global.shared::cta||.shared::cluster.shared::cta||.global.shared::cluster||.shared.global||.global.global||.shared::cta.shared::cta|><|.mbarrier::complete_tx::bytes||.bulk_group|||><|||.multicast::cluster||.L2::cache_hint||.multicast::cluster.L2::cache_hint||.cp_mask|> <|[b0]||[q0]||[smem]||[gmem]||[smem+8]||[f0]|>, <|[q0]||[b0]||[gmem]||[smem]||[q0+16]|>, <|16||b0||15||8||0||32||-16||24||1048576||4294967296||q0||17||100||16.0||f0||u0|><|, [b1]||||, [q0]||, b1||, [smem]||, [b1], h0||, [b1], q0||, q0||, h0||, [b1], b2||, [b1], h0, q0||, [b1], q0, h0|>;",
    "cp.async.bulk.global.shared::cta.bulk_group<|||.L2::cache_hint||.cp_mask|> [q0], <|[b0]||[smem]||[q1]||[q1+16]||[gmem]|>, <|16||b0||15||8||0||32||24||1600||1608||-16|><|||, q1||, h0||, 5|>;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [b0], [q0], <|16||b0||15||8||0||32||24||1600||1608||-16||16+16||40/2||0x10||0x11||16U|>, [b1];",
    "cp.async.bulk.<|commit_group||wait_group 0||wait_group.read 0||wait_group||wait_group.read||wait_group b0||wait_group -1||wait_group 8||wait_group.write 0||commit_group 0||wait_all||wait_group 100000000000|>;",
    "cp.async.bulk.prefetch.L2<|.global||.shared|||><|||.L2::cache_hint|> [q0], <|16||8||15||b0||0||24||-16||32|><|||, q1|>;",
    "cp.reduce.async.bulk<|.global.shared::cta||.shared::cluster.shared::cta||.shared::cta.global|><|.bulk_group||.mbarrier::complete_tx::bytes|><|||.L2::cache_hint|><|.add||.min||.max||.inc||.dec||.and||.or||.xor||.exch|||><|||.noftz|><|.u32||.s32||.u64||.s64||.f32||.f64||.f16||.bf16||.b32||.b64||.u8|> [<|q0||b0|>], [<|b1||q1|>], <|16||b2||15||8||0||24|><|||, [b3]||, q2|>;",
    "cp.async.bulk.prefetch.tensor<|.1d||.2d||.3d||.5d||.6d||.0d|><|.L2||.L2.global||.L2.global.tile||.global.L2|> [q0, <|{b0}||{b0,b1}||{b0,b1,b2}||b0||{5}||{}||{b0,5}||{q0}||{f0}||{h0}||{u0,s0}||{b0,b1,b2,b3,b4}|>];",
    "cp.async.bulk.tensor<|.2d||.1d||.3d||.4d||.5d||.6d|><|.shared::cluster.global||.shared::cta.global||.global.shared::cta||.shared.global|><|||.tile||.im2col||.im2col_no_offs|><|.mbarrier::complete_tx::bytes||.bulk_group|||><|||.multicast::cluster||.L2::cache_hint|> <|[b0]||[q0]||[smem]|>, <|[q0, {b0,b1}]||[q0, {b0}]||[q0, {b0,b1,b2}]||[q0]||[q0, {5,b1}]||[q0, b0]||[gmem, {b0,b1}]||[b0, {b0,b1}]||[q0, {q0,q1}]||[q0, {b0,b1,b2,b3}]|><|, [b1]||||, [q1]||, [b1], {h0}||, [b1], h0||, [b1], {h0,h1}||, [b1], q0|>;",
    "cp.async.bulk.tensor<|.2d||.1d||.3d||.5d||.6d|>.global.shared::cta<|||.tile||.im2col_no_offs||.im2col|><|.bulk_group||.mbarrier::complete_tx::bytes|||><|||.L2::cache_hint|> <|[q0, {b0,b1}]||[q0, {b0}]||[q0, {b0,b1,b2}]||[q0]|>, <|[b0]||[smem]||[q1]|><|||, q1||, [b1]|>;",
    "movmatrix.sync.aligned.m8n8.trans.b16 <|b0||u0||f0||s0||x0||q0||h0||{b0}||_||5|>, <|b1||u1||f1||s1||x1||q1||h1||{b1}||_||5||0||b0||-1|>;",
    "<|ldmatrix||stmatrix|>.sync.aligned<|.m8n8||.m16n16||.m8n16||.m16n8||.m8n4|>.x<|1||2||4||3|><|||.trans|><|.shared||.shared::cta||||.global||.shared::cluster|><|.b16||.b8||.b32|> <|{b0}, [b1]||{b0,b1}, [b4]||{b0,b1,b2,b3}, [b4]||[b4], {b0}||[b4], {b0,b1}||[b4], {b0,b1,b2,b3}||b0, [b1]||[b1], b0||{b0}, [q0]||{b0}, [smem]||{b0}, [gmem]||{b0}, [smem+16]||[b1], {5}||{q0}, [b0]||{f0}, [b0]||{h0}, [b0]||{_}, [b0]||{b0,_}, [b1]||{u0,s0}, [b1]||{b0,b0}, [b1]||{b0}, b1|>;",
    "<|prefetch.global.L1||prefetch.global.L2||prefetch.L1||prefetch.local.L2||prefetchu.L1||prefetch.global||prefetch.shared.L1||prefetch.global.L2::evict_last||prefetch.global.L2::evict_normal||prefetch.L2::evict_last||prefetch.global.L3||prefetch.const.L1||prefetch.tensormap||prefetch.param.tensormap||prefetch.const.tensormap||prefetchu.global.L1||applypriority.global.L2::evict_normal||applypriority.L2::evict_normal||discard.global.L2||discard.L2|> "
    + ADDRESS
    + "<|||, 128||, 64||, b0|>;",
    "<|atom||red|><|||.relaxed||.acquire||.release||.acq_rel||.relaxed.gpu||.acq_rel.sys||.volatile||.gpu||.relaxed.cluster||.sc|><|.global||||.shared||.shared::cta||.shared::cluster||.local||.const|><|.add||.min||.max||.and||.or||.xor||.exch||.cas||.inc||.dec||.sub||.add.noftz|||><|.u32||.s32||.u64||.s64||.b32||.b64||.f32||.f64||.f16||.f16x2||.bf16||.bf16x2||.b16||.b128||.u16|> <|b0, [q0], b1;||[q0], b1;||q0, [q1], q2;||b0, [q0], b1, b2;||f0, [q0], f1;||d0, [q0], d1;||_, [q0], b1;||b0, [q0], 5;||b0, [q0], 1.0;||h0, [q0], h1;||x0, [q0], x1;||o0, [q0], o1;||o0, [q0], o1, o2;||[q0], f0;||[q0], 5;||b0, [gmem], b1;||b0, [smem], b1;||b0, [b1], b2;||5, [q0], b0;||b0, q0, b1;||b0, [q0];||b0, [prm], b1;||b0, [cmem], b1;||b0, [lmem], b1;|>",
    "<|mapa||mapa.shared::cluster||mapa.shared::cta||getctarank||getctarank.shared::cluster||mapa.shared||mapa.global|><|.u32||.u64||.b32|> <|b0, b1, b2;||q0, q1, b2;||b0, smem, b2;||b0, smem, 1;||q0, gmem, 0;||b0, smem+4, b1;||b0, b1;||q0, q1;||b0, q1;||b0, smem;||b0, 5, b1;||b0, b1, q0;||b0, b1, smem;||_, b1, b2;||b0, [b1], b2;|>",
    "<|mbarrier.init||mbarrier.inval||mbarrier.arrive||mbarrier.arrive_drop||mbarrier.test_wait||mbarrier.try_wait||mbarrier.expect_tx||mbarrier.complete_tx||mbarrier.pending_count||mbarrier.arrive.expect_tx||mbarrier.test_wait.parity||mbarrier.try_wait.parity||mbarrier.arrive.noComplete|><|||.release.cta||.relaxed.cta||.acquire.cta||.release.cluster||.relaxed.cluster||.acquire||.release.gpu|><|.shared||.shared::cta||.shared::cluster||||.global|><|.b64||.u64||.b32|> <|[b0], 1;||[b0];||q0, [b0];||q0, [b0], 1;||_, [b0];||_, [b0], 1;||p0, [b0], q0;||p0, [b0], b1;||p0, [b0], q0, b1;||p0, [b0], b1, b2;||b0, q0;||p0, [b0], 1;||p0, [b0], 1, 1000;||q0, [q1], 1;||[smem], b1;||[b0], -1;||[b0], 1048575;||[b0], q0;||p0|p1, [b0], b1;||q0, [b0], 0;|>",
    "<|bar.sync||bar.arrive||bar.red.popc.u32||bar.red.and.pred||barrier.sync||barrier.sync.aligned||barrier.arrive||barrier.cta.sync||bar.cta.sync||barrier.cta.red.or.pred||barrier.red.popc.aligned.u32||bar.warp.sync||bar.red.popc.pred||bar||barrier||barrier.cluster.arrive||barrier.cluster.wait||barrier.cluster.arrive.release.aligned||barrier.cluster.wait.acquire||barrier.cluster.arrive.relaxed||barrier.cluster.wait.release||bar.sync.aligned|> <|0;||b0;||15;||16;||-1;||0, 32;||0, 0;||0, 33;||0, b1;||0, 1024;||0, 1056;||0, 2048;||b0, 0, p0;||p0, 0, p1;||b0, 0, !p0;||b0, 0, 32, p0;||p0, 0, 32, !p0;||;||0, 32, 64;||q0;||0xffffffff;||1.0;||p0;||h0;||0, 31;|>",
    "<|tensormap.replace.tile||tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned||fence.proxy.tensormap::generic.acquire.gpu||fence.proxy.tensormap::generic.release.gpu||fence.proxy.async||fence.proxy.async.global||fence.proxy.async.shared::cta||fence.proxy.alias||fence.mbarrier_init.release.cluster||fence||fence.acq_rel||fence.sc.cta||fence.acq_rel.gpu||membar||membar.cta||membar.proxy.alias||fence.proxy||membar.sys.gl||fence.acq_rel.foo||fence.acquire.sync_restrict::shared::cluster.cluster||fence.release.sync_restrict::shared::cta.cluster|><|||.global_address||.rank||.box_dim||.elemtype|><|||.global||.shared::cta|><|||.b1024.b64||.b1024.b32||.b64|> <|;||[q0], q1;||[q0], 0, b0;||[q0], b0;||[q0], 5;||[q0], [b0], 128;||[q0], [b0], 64;||[q0], 128;||[q0], 64;||[q0], 5, b0;||[b0], q1;|>",
    "<|prmt.b32||prmt.b32.f4e||prmt.b32.rc8||lop3.b32||lop3.or.b32||shf.l.wrap.b32||shf.r.clamp.b32||shfl.sync.idx.b32||shfl.sync.up.b32||shfl.idx.b32||selp.b32||selp.f32||slct.b32.s32||slct.f32.f32||bfe.u32||bfi.b32||szext.clamp.u32||bmsk.wrap.b32||fns.b32||vote.sync.ballot.b32||vote.sync.any.pred||match.any.sync.b32||match.all.sync.b32||redux.sync.add.u32||elect.sync||activemask.b32||cvt.u32.u64||cvt.rn.f32.u32||cvt.pack.sat.u8.s32.b32||nanosleep.u32||setmaxnreg.inc.sync.aligned.u32||createpolicy.fractional.L2::evict_last.b64||griddepcontrol.wait||stacksave.u64||alloca.u64||pmevent||pmevent.mask|> <|b0, b1, b2, b3;||b0, b1, b2, 5;||b0, b1, b2, 256;||b0, b1, b2, -1;||b0, b1, b2;||b0|p0, b1, b2, b3, b4;||b0, b1, b2, b3, b4;||b0|p0, b1, b2, b3;||b0, b1, b2, p0;||f0, f1, f2, p0;||b0, 1, 2, p0;||f0, f1, f2, f3;||b0, b1;||b0;||;||b0, p0, -1;||p0, p1, -1;||b0, p0, b1;||p0, !p1, b1;||b0|p0, b1, -1;||b0|p0, -1;||_|p0, b1;||b0, q0;||f0, u0;||f0, 5;||5;||232;||24;||16;||257;||q0, 1.0;||q0;||q0, 16;||b0, b1, 5, 256, p0;||b0|p0, b1, b2, b3, 5, p1;||b0, b1, 0, 5, -1;||16, 1;||15;||b0, b1, b2, b3, 5;|>",
]

MMA_OPERANDS = {
    "f16": "{b0,b1}, {b2,b3,b4,b5}, {b6,b7}, {b8,b9};",
    "f32": "{f0,f1,f2,f3}, {b2,b3,b4,b5}, {b6,b7}, {f4,f5,f6,f7};",
}
SHUFFLED = [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {b2,b3,b4,b5}, {b6,b7}, {f4,f5,f6,f7};",
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {b0,b1}, {b2,b3,b4,b5}, {b6,b7}, {b8,b9};",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {f0,f1,f2,f3}, {b2,b3,b4,b5}, {b6,b7}, {f4,f5,f6,f7};",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {f0,f1,f2,f3}, {b2,b3,b4,b5}, {b6,b7}, {f4,f5,f6,f7};",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {s0,s1,s2,s3}, {b2,b3,b4,b5}, {b6,b7}, {s4,s5,s6,s7};",
    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {s0,s1,s2,s3}, {b2,b3,b4,b5}, {b6,b7}, {s4,s5,s6,s7};",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d0,d1}, {d2}, {d3}, {d4,d5};",
    "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32 {f0,f1,f2,f3,f4,f5,f6,f7}, {x0,x1}, {x2,x3}, {f8,f9,f10,f11,f12,f13,f14,f15};",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {b2,b3,b4,b5}, {b6,b7,b8,b9}, {f4,f5,f6,f7}, b10, 0;",
    "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {b2,b3,b4,b5}, {b6,b7,b8,b9}, {f4,f5,f6,f7}, b10, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0,f1,f2,f3}, q0, q1, 1, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8.satfinite {s0,s1,s2,s3}, q0, q1, p0;",
    "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {f0,f1,f2,f3}, {b0,b1,b2,b3}, q1, 1, 1, 1;",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {f0,f1,f2,f3}, q0, q1, b0, 0, 1, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {s0,s1,s2,s3}, q0, q1, 1;",
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {f0,f1,f2,f3,f4,f5,f6,f7}, {b0,b1,b2,b3,b4,b5,b6,b7}, {b8,b9,b10,b11,b12,b13,b14,b15}, {f8,f9,f10,f11,f12,f13,f14,f15};",
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {b0,b1,b2,b3,b4,b5,b6,b7}, [q0], b8;",
    "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [q0], {f0,f1,f2,f3,f4,f5,f6,f7}, b8;",
    "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {b0}, [b1];",
    "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [b1], {b0};",
    "movmatrix.sync.aligned.m8n8.trans.b16 b0, b1;",
    "ld.relaxed.gpu.global.L1::evict_last.L2::128B.v2.b32 {b0,b1}, [q0];",
    "ld.global.ca.nc.v2.f32 {f0,f1}, [q0];",
    "ld.volatile.shared.u32 u0, [b0];",
    "ld.weak.global.cg.u32 u0, [q0];",
    "st.release.sys.global.v2.b32 [q0], {b0,b1};",
    "st.weak.global.cs.b32 [q0], b0;",
    "atom.acq_rel.gpu.global.add.u32 b0, [q0], b1;",
    "atom.relaxed.cta.shared.cas.b32 b0, [b1], b2, b3;",
    "atom.global.add.noftz.f16x2 x0, [q0], x1;",
    "atom.global.v2.f32.add {f0,f1}, [q0], {f2,f3};",
    "red.relaxed.gpu.global.add.f32 [q0], f0;",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [b0], b1, [b2];",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [b0], b1, [b2];",
    "cp.async.ca.shared.global.L2::128B [b0], [q0], 16;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [b0], [q0], 16, [b1], h0;",
    "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [q0], [b0], 16, q1;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [q0], [b0], 16;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [b0], [q0, {b1,b2}], [b3];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [q0, {b1,b2}], [b3];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [q0, {b1,b2}], [b3];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [q0, {b1,b2}];",
    "mbarrier.arrive.expect_tx.release.cta.shared.b64 q0, [b0], b1;",
    "mbarrier.try_wait.parity.acquire.cta.shared.b64 p0, [b0], b1, b2;",
    "mbarrier.test_wait.acquire.cta.shared::cta.b64 p0, [b0], q1;",
    "barrier.cta.sync.aligned 0, 32;",
    "barrier.cta.red.popc.aligned.u32 u0, 0, 32, p0;",
    "barrier.cluster.arrive.release.aligned;",
    "fence.proxy.async.shared::cta;",
    "fence.acq_rel.gpu;",
    "fence.mbarrier_init.release.cluster;",
    "fence.proxy.tensormap::generic.acquire.gpu [q0], 128;",
    "shfl.sync.idx.b32 b0|p0, b1, 0, 31, -1;",
    "vote.sync.ballot.b32 b0, p0, -1;",
    "match.all.sync.b32 b0|p0, b1, -1;",
    "redux.sync.add.u32 u0, u1, -1;",
    "elect.sync b0|p0, -1;",
    "add.rn.ftz.sat.f32 f0, f1, f2;",
    "add.cc.u32 u0, u1, u2;",
    "add.rn.ftz.f16x2 x0, x1, x2;",
    "mul.wide.u32 q0, u1, u2;",
    "mul.hi.s32 s0, s1, s2;",
    "mul24.lo.u32 u0, u1, u2;",
    "mad.lo.cc.u32 u0, u1, u2, u3;",
    "mad.hi.sat.s32 s0, s1, s2, s3;",
    "mad24.hi.sat.s32 s0, s1, s2, s3;",
    "mad24.lo.s32 s0, s1, s2, s3;",
    "mad.wide.u16 u0, uh1, uh2, u3;",
    "fma.rn.ftz.sat.f32 f0, f1, f2, f3;",
    "fma.rn.relu.bf16x2 b0, b1, b2, b3;",
    "fma.rn.ftz.relu.f16 h0, h1, h2, h3;",
    "div.full.ftz.f32 f0, f1, f2;",
    "div.rn.ftz.f32 f0, f1, f2;",
    "rcp.approx.ftz.f64 d0, d1;",
    "sqrt.rn.ftz.f32 f0, f1;",
    "ex2.approx.ftz.f32 f0, f1;",
    "tanh.approx.f32 f0, f1;",
    "min.ftz.NaN.xorsign.abs.f32 f0, f1, f2;",
    "max.NaN.ftz.f16x2 x0, x1, x2;",
    "setp.lt.and.ftz.f32 p0|p1, f0, f1, p2;",
    "set.lt.and.ftz.u32.f32 u0, f0, f1, p2;",
    "selp.b32 b0, b1, b2, p0;",
    "slct.ftz.f32.f32 f0, f1, f2, f3;",
    "cvt.rn.ftz.sat.f16.f32 h0, f0;",
    "cvt.rzi.ftz.s32.f32 s0, f0;",
    "cvt.rn.satfinite.relu.e4m3x2.f32 h0, f0, f1;",
    "cvt.rn.relu.bf16x2.f32 b0, f0, f1;",
    "cvt.rna.satfinite.tf32.f32 b0, f0;",
    "cvt.pack.sat.u8.s32.b32 b0, s0, s1, b1;",
    "cvta.to.global.u64 q0, q1;",
    "shf.l.wrap.b32 b0, b1, b2, b3;",
    "bfind.shiftamt.u32 u0, u1;",
    "bmsk.clamp.b32 b0, b1, b2;",
    "szext.wrap.s32 s0, s1, u2;",
    "prmt.b32.f4e b0, b1, b2, b3;",
    "lop3.or.b32 b0|p0, b1, b2, b3, 5, p1;",
    "dp4a.u32.s32 s0, u1, s2, s3;",
    "dp2a.lo.u32.s32 s0, u1, s2, s3;",
    "vadd.u32.u32.u32.sat u0, u1, u2;",
    "vadd.u32.u32.u32.sat.add u0, u1, u2, u3;",
    "vset.u32.u32.lt u0, u1, u2;",
    "vmad.u32.u32.u32.shr7 u0, u1, u2, u3;",
    "vadd4.u32.u32.u32.sat u0, u1, u2, u3;",
    "copysign.f32 f0, f1, f2;",
    "isspacep.global p0, q0;",
    "mapa.shared::cluster.u32 b0, b1, b2;",
    "getctarank.shared::cluster.u32 b0, b1;",
    "prefetch.global.L2::evict_last [q0];",
    "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 q0, 1.0;",
    "setmaxnreg.inc.sync.aligned.u32 232;",
    "multimem.ld_reduce.relaxed.gpu.global.add.u32 u0, [q0];",
    "multimem.st.relaxed.gpu.global.u32 [q0], u0;",
    "multimem.red.relaxed.gpu.global.add.u32 [q0], u0;",
    "tensormap.replace.tile.global_address.global.b1024.b64 [q0], q1;",
    "griddepcontrol.wait;",
    "nanosleep.u32 5;",
    "activemask.b32 b0;",
]
"""Instructions that are legal as written: their modifiers are shuffled, doubled, dropped and exchanged."""

_FRONT = "<|||.align 8 ||.align 16 .align 8 ||.attribute(.managed) ||.align 4 .attribute(.managed) ||.attribute(.managed) .align 32 ||.v2 ||.u32 ||.align 3 ||.align |>"
_POINTER = "<|||.ptr||.ptr .global||.ptr .global .align 8||.ptr .align 8 .global||.ptr .align 8||.ptr .align 8 .align 16||.ptr .global .shared||.ptr .ptr||.global .ptr|>"
_PARAMETER = (
    f"{_FRONT}<|.param||.reg||.global|||> <|.u64||.u32||.b8||.v2 .u32||.align 8 .v2 .u32|> {_POINTER} a<|||[4]||[]|>"
)
_NAMED = "<|.reg .u32 q;||.local .u32 q;||.shared .u32 q;||.param .u32 q;||.reg .u32 q<3>;||.reg .u32 q1;|>"
_LABELLED = "<|q: ret;||q1: ret;||q: .callprototype _;||q: .branchtargets e;||z: ret;|>"
LEADING = [
    f"{LINKAGE}{_FRONT}<|.global||.const||.shared||.local||.param||.reg|||>{ALIGN} <|.u32||.v2 .u32||.b8|> x<|||[4]|><|;|||>\n.entry k()\n{{\nret;\n}}\n",
    f".entry k()\n{{\n{_FRONT}<|.shared||.local||.param||.reg||.global||.const|||>{ALIGN} <|.u32||.v2 .u32||.v4 .f32||.b8|> x<|||[4]|>;\nret;\n}}\n",
    f"<|.entry f({_PARAMETER})\n{{\nret;\n}}||.func f({_PARAMETER})\n{{\nret;\n}}||.func ({_PARAMETER}) f()\n{{\nret;\n}}||.extern .func f({_PARAMETER});|>\n.entry k()\n{{\nret;\n}}\n",
    f".entry k()\n{{\np: .callprototype <|||({_PARAMETER}) |>_ ({_PARAMETER})<|;|||>\nret;\n}}\n",
    "<|.extern .func f()||.func f()||.extern .func f() .noreturn|> <|||;||.align 8||.align 8 .align 16||.align 8 .global .u32 x;||.attribute(.managed) .global .u32 x;||.global .u32 x;|>\n<|{ret;}||||.entry k()\n{\nret;\n}|>\n",
]
_INNER = f"<|{_LABELLED}||{{{_LABELLED}}}|>"
LABELS = [
    f".entry k(<|||.param .u32 q|>)\n{{\n<|{_NAMED}||{{{_NAMED}}}|>\n{_INNER}\ne: ret;\n}}\n",
    f".entry k(<|||.param .u32 q|>)\n{{\n{_INNER}\n{_NAMED}\ne: ret;\n}}\n",
    f".entry k(<|||.param .u32 q|>)\n{{\n{{\n{_NAMED}\n{_LABELLED}\n}}\n<|{_NAMED}||{_INNER}|>\ne: ret;\n}}\n",
    f".global .u32 q;\n.entry q1()\n{{\n{_LABELLED}\n{_INNER}\ne: ret;\n}}\n",
]
_BARRIER = "<|[q1]||q1||[b1]||b1||[smem]||smem||[smem+8]||smem+8||8||-1||[8]||WARP_SZ||[gmem]||gmem||[zzz]||zzz||[p0]||p0||_||[f0]||{q1}||prm|>"
_TO = "mbarrier::complete_tx::bytes"
BARRIERS = [
    f"cp.async.bulk.<|shared::cluster.global||shared::cta.global||shared::cluster.shared::cta|>.{_TO} [<|q2||smem|>], [q3], 16, {_BARRIER};",
    f"cp.async.bulk.shared::cluster.global.{_TO}<|.multicast::cluster [q2], [q3], 16, {_BARRIER}, h0||.L2::cache_hint [q2], [q3], 16, {_BARRIER}, q4|>;",
    f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_TO}.add.u32 [q2], [q3], 16, {_BARRIER};",
    f"cp.async.bulk.tensor.<|2d.shared::cluster.global||2d.shared::cluster.global.tile||2d.shared::cta.global|>.{_TO} [q2], [q3, {{b2, b3}}], {_BARRIER};",
    f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.{_TO}<| [q2], [q3, {{b2, b3, b4}}], {_BARRIER}, {{h0}}||.multicast::cluster [q2], [q3, {{b2, b3, b4}}], {_BARRIER}, {{h0}}, h1|>;",
    f"<|st.async.shared::cluster.{_TO}.u32 [b2], b3||red.async.relaxed.cluster.shared::cluster.{_TO}.add.u32 [b2], b3|>, {_BARRIER};",
]
"""What stands for an mbarrier's address."""

FAMILIES = {
    "directives": DIRECTIVES,
    "declarations": DECLARATIONS,
    "initialisers": INITIALISERS,
    "calls": CALLS,
    "prototypes": PROTOTYPES,
    "movement": MOVEMENT,
    "modifiers": SHUFFLED,
    "leading": LEADING,
    "labels": LABELS,
    "barriers": BARRIERS,
}
