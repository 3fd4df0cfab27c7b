"""More templates of modules, as in ``legality_templates.py``: targets and versions, pragmas, what is for debuggers, numbers in
all notations, scopes, kernels' parameters and clusters, guards.
"""

from __future__ import annotations

_V = "<|8.7||9.0||8.8||8.6||8.5||8.4||8.3||8.2||8.1||8.0||7.8||7.5||7.4||7.1||7.0||6.5||6.4||6.3||6.2||6.1||6.0|>"
_T = "<|sm_90a||sm_90||sm_80||sm_75||sm_70||sm_72||sm_86||sm_87||sm_89||sm_100||sm_100a||sm_100f||sm_103||sm_103a||sm_120||sm_120a||sm_121||sm_121f||sm_110||sm_60||sm_90f|>"
_O = "<|||||||, debug||, texmode_unified||, texmode_independent||, debug, texmode_unified||, debug, debug||, map_f64_to_f32||, texmode_unified, debug|>"
_HEAD = f".version {_V}\n.target {_T}{_O}\n.address_size 64\n"
_NEW = (
    "<|.reg .b128 o;||.maxntid 32;||.global .attribute(.managed) .u32 m;||.shared .b8 t[64];||.reg .b32 r<4>;||.param .b32 x;"
    "||.pragma \"nounroll\";||.pragma \"used_bytes_mask 1\";||.pragma \"frequency 3\";||.pragma \"enable_smem_spilling\";||.local .align 16 .b8 l[16];"
    "||mov.u32 %r, %clusterid.x;||mov.u32 %r, %nclusterid.y;||mov.u32 %r, %reserved_smem_offset_0;||mov.u32 %r, %aggr_smem_size;||mov.u64 %q, %globaltimer;"
    "||mov.u32 %r, %total_smem_size;||mov.u32 %r, %dynamic_smem_size;||mov.u64 %q, %current_graph_exec;||mov.u32 %r, %laneid;||mov.u32 %r, %lanemask_lt;||mov.u32 %r, %envreg3;||mov.u32 %r, %pm3;||mov.u64 %q, %pm3_64;"
    "||call f;||bar.warp.sync -1;||activemask.b32 %r;||@p bra L;||brx.idx %r, T;||ret;||exit;||griddepcontrol.wait;||barrier.cluster.arrive;||fence.acq_rel.gpu;||membar.gl;||mov.b128 %o, {%q, %q};||bra.uni L;|>"
)  # fmt: skip
TARGETS = [
    f"{_HEAD}.func f()\n{{\nret;\n}}\n.entry k(.param .u64 a)\n<|||.maxntid 32||.reqntid 32||.reqnctapercluster 2||.maxclusterrank 4||.explicitcluster||.minnctapersm 2\n.maxntid 32||.maxnreg 32||.reqntid 64\n.reqnctapercluster 2\n.blocksareclusters||.minnctapersm 2|>\n{{\n.reg .b32 %r; .reg .b64 %q; .reg .pred p;\n{_NEW}\n{_NEW}\nT: .branchtargets L;\nL:\nret;\n}}\n",
    f"{_HEAD}<|||.func .noreturn f()\n{{\ntrap;\n}}||.func f() .noreturn\n{{\nexit;\n}}||.func (.param .b32 r) f() .noreturn\n{{\nexit;\n}}||.func f() .abi_preserve 8\n{{\nret;\n}}||.func f() .abi_preserve_control 4\n{{\nret;\n}}||.func (.reg .b128 r) f()\n{{\nret;\n}}||.func f()\n{{\nret;\n}}\n.func g();\n.alias g, f;||.visible .func f()\n{{\nret;\n}}\n.visible .func g();\n.alias g, f;||.extern .global .b8 x[];||.common .global .u32 x;||.global .b128 x;||.weak .global .u32 x;||.global .u8 x = 0xFF(y);||.const .u64 x = generic(k);||.extern .shared .align 16 .b8 x[];|>\n.entry k()\n{{\n<|||.param .b32 x;||call f;||.shared .b128 x;||.local .b128 x;|>\nret;\n}}\n",
]
_PRAGMA = (
    '.pragma <|"nounroll"||"a"||""||"nounroll", "nounroll"||"nounroll", "a"||"used_bytes_mask 1"||"used_bytes_mask 0xF"||"used_bytes_mask"||"used_bytes_mask x"'
    '||"used_bytes_mask -1"||"used_bytes_mask 1 2"||"enable_smem_spilling"||"frequency 10"||"frequency"||"frequency 1.0"||"Nounroll"||" nounroll"||"nounroll;"||nounroll||"a||"a\\"b"||"used_bytes_mask 0"||"frequency 0"||"frequency 99999999999999999999"|><|;||||,;||;;|>'
)
PRAGMAS = [
    f".version {_V}\n.target <|sm_90||sm_80||sm_75|>\n.address_size 64\n<|||{_PRAGMA}|>\n<|.entry k()||.func k()|>\n<|||{_PRAGMA}|>\n{{\n.reg .b32 r; .reg .b64 q; .reg .pred p;\n<|||{_PRAGMA}|>\n<|ld.global.b32 r, [q];||L:||st.global.b32 [q], r;||@p bra L;|>\nL:\n<|||{_PRAGMA}|>\nret;\n}}\n<|||{_PRAGMA}|>\n",
]
_N = "<|1||0||2||3||-1||4294967295||4294967296||0x1||01||1U||1.0||x||(1)||1+1|>"
_DATUM = "<|.b8 1||.b8 255||.b8 256||.b8 -128||.b8 -129||.b16 65535||.b16 65536||.b32 1, 2||.b32 4294967296||.b64 L||.b64 k||.b64 x||.b32 L||.b32 .debug_str||.b64 .debug_info+4||.b32 L1-L||.b64 L+4||.b8 0x1F||.b8 010||.b8 1,||.b8||.b128 1||.u8 1||.f32 1.0||.b8 'a'||.b8 \"a\"||L:||L1:||1||.b8 1;||.b32 zz||.align 4||.b64 18446744073709551615||.b8 1U||.b16 (1)||.b8 1+1||.b8 - 1||.b32 k, 5, L|>"
_LOC = (
    f".loc <|1||2||7||0|> {_N} {_N}<|||||||, function_name L, inlined_at 1 1 1||, function_name L+4, inlined_at 1 2 3||, function_name .debug_str+4, inlined_at 1 1 1"
    "||, function_name L, inlined_at 3 3 3||, inlined_at 1 1 1||, function_name L||, function_name L inlined_at 1 1 1||, function_name 5, inlined_at 1 1 1||, function_name L-4, inlined_at 1 1 1||;||, is_stmt 1|>"
)
DEBUGGING = [
    f'.file {_N} "a.cu"<|||||, 5||, 5, 6||, 5, 6, 7||, -1, 1||, 18446744073709551615, 1||, 18446744073709551616||,|>\n<|||.file 2 "b"||.file 1 "a.cu"||.file 1 "c"|>\n<|||.target sm_90, debug|>\n.entry k()\n{{\n.loc 1 1 1\n{_LOC}\nmov.u32 %r0, 1;\n{_LOC}\nret;\n}}\n'.replace(
        "mov.u32 %r0, 1;", "<|||.reg .b32 r;||L2:||{||}||ret;|>"
    ),
    f'.file 1 "a"\n.global .u32 x;\n.entry k()\n{{\nL:\nret;\n}}\n.section <|.debug_info||.debug_str||.debug_abbrev||.debug_x||debug_info||.text||.debug||.debug_loc|>\n<|{{||||{{{{|>\n<|||L:||L: L1:|>\n{_DATUM}\n{_DATUM}\n{_DATUM}\n<|}}||||}};||}}}}|>\n<|||.section .debug_line\n{{\n}}||.section .debug_info {{ .b8 1 }}||.file 2 "x"|>\n',
    f'<|.section .debug_str\n{{\n{_DATUM}\n}}||@@DWARF .byte 1||@@DWARF .section .debug_info||@@DWARF||@@dwarf .4byte 5||@@DWARF .quad L|>\n.entry k()\n{{\n<|||@@DWARF .byte 1||.section .debug_str {{ }}||.file 1 "x"|>\nret;\n}}\n',
]
_INT = (
    "<|5||0x1F||0X1f||017||08||0b101||0B11||0b2||5U||0x5U||017U||0b1U||5u||5L||1_000||0x||0b||00||0x0||0xffffffffffffffff||0x10000000000000000||18446744073709551615||18446744073709551616"
    "||-5||+5||~5||!5||--5||- 5||-(5)||(5)||(5||5)||1+2*3||(1+2)*3||7/2||-7/2||7%3||-7%3||1<<3||1<<63||1<<64||1>>70||-1>>1||5&3||5|3||5^3||5&&0||0||5||1?2:3||0?2:3||1?2||5==5||5!=5||5<3||5>=3"
    "||1.0||5.0||1e3||.5||5.||1.5e-3||1e||0f3F800000||0F3f800000||0f3F80||0d3FF0000000000000||0d3FF0||0x1.8p3||1.0f||inf||nan||1.0+2.0||1.0*2||1.0==1.0||(.s64)5||(.u64)-5||(.s64)1.5||(.u64)-1.5||(.u32)5||(.s64)(1+2)||WARP_SZ||WARP_SZ*2||-WARP_SZ||x||%r||'a'||\"a\"||5/0||5%0||1.0/0.0||-0x8000000000000000||0777777777777777777777||01777777777777777777777||02000000000000000000000||1-1||2-3||2--3||2 3||0f3F800000+1.0||-0f3F800000||-1.0||-0d3FF0000000000000||!0||!1.0||~1.0||(1,2)||{5}|>"
)
NUMBERS = [
    f".entry k()\n{{\n.reg .<|b32 r||u64 r||f32 r||f64 r||b16 r||s32 r||u16 r||b64 r|>;\n.reg .b64 q;\nmov.<|b32||u64||f32||f64||b16||s32||u16||b64|> r, {_INT};\nret;\n}}\n",
    f".global .<|u32||u64||b8||f32||f64||s16||b16||u8||s64|> x<|||[4]||[2][2]|> = <|{_INT}||{{{_INT}, {_INT}}}||{{{{{_INT}}}, {{1}}}}|>;\n.entry k()\n{{\nret;\n}}\n",
    f".global .b8 g[<|{_INT}|>];\n.shared .align {_INT} .b8 s[16];\n.entry k()\n.maxntid <|32||{_INT}|>\n{{\n.reg .b32 r<<|4||{_INT}|>>;\nret;\n}}\n",
    f".global .b8 g[64];\n.entry k()\n{{\n.reg .b32 r; .reg .b64 q; .reg .f32 f; .reg .f64 d; .reg .pred p;\n<|ld.global.b32 r, [g+{_INT}];||st.global.b32 [q+{_INT}], {_INT};||add.u32 r, r, {_INT};||shl.b32 r, r, {_INT};||add.f32 f, f, {_INT};||fma.rn.f64 d, d, {_INT}, {_INT};||setp.eq.u32 p, r, {_INT};||bar.sync {_INT};||lop3.b32 r, r, r, r, {_INT};||add.s64 q, {_INT}, q;||selp.f32 f, {_INT}, f, p;||cvt.rn.f32.u32 f, {_INT};||mov.b64 q, {{r, {_INT}}};||mov.u64 q, g+{_INT};||shfl.sync.idx.b32 r, r, {_INT}, {_INT}, -1;|>\nret;\n}}\n",
]
_NAME = "<|q||q1||q<4>||%q||$q||_q||q$||x||k||a||%tid||L|>"
_DECL = f"<|||.reg .<|b32||pred||b64|> {_NAME};||.shared .b32 <|q||x||k||a|>;||.local .b32 <|q||a|>;||{{ .reg .b32 {_NAME}; }}||{_NAME}: ||{{ <|q||L||x|>: }}||.param .b32 q;||.reg .b32 q, q;||.reg .b32 q, q1, q2;||.reg .b32 q<2>, q1;||.reg .b32 q1, q<2>;|>"
_USE = f"<|||mov.b32 r, {_NAME};||mov.b32 {_NAME}, r;||mov.b64 d, {_NAME};||bra {_NAME};||@{_NAME} ret;||ld.param.b32 r, [{_NAME}];||ld.shared.b32 r, [{_NAME}];||{{ mov.b32 r, {_NAME}; }}||mov.b32 r, q3;||mov.b32 r, q4;||mov.b32 r, q01;||mov.b32 r, q0;|>".replace(
    "q<4>", "q2"
)
SCOPES = [
    f"<|||.global .b32 q;||.global .b32 x;||.const .b32 q1;|>\n.entry k(.param .b32 a<|||, .param .b32 q|>)\n{{\n.reg .b32 r; .reg .b64 d;\n{_DECL}\n{_USE}\n<|{{||||{{{{|>\n{_DECL}\n{_USE}\n{_DECL}\n<|}}||||}}}}|>\n{_USE}\n{_DECL}\n{_USE}\nL:\nret;\n}}\n",
    f".func <|||(.reg .b32 q) ||(.param .b32 q) |>f(<|||.reg .b32 a||.param .b32 a||.reg .b32 q||.reg .b32 a, .reg .b32 a|>)\n{{\n.reg .b32 r; .reg .b64 d;\n{_DECL}\n{_USE}\n{{\n{_DECL}\n{_USE}\n}}\n{_USE}\nL:\nret;\n}}\n.entry k()\n{{\n<|||.reg .b32 q; mov.b32 q, 1;||bra L;||call f;|>\nret;\n}}\n",
]
_PTR = "<|||||||.ptr||.ptr .global||.ptr .shared .align 16||.ptr .const .align 4||.ptr .local||.ptr .align 8||.ptr .global .align 3||.ptr .global .align 0||.ptr .generic||.ptr .param||.ptr .global .global||.ptr .align 8 .global|>"
_P = f".param <|||||||.align <|8||4||16||1||0||3||64||128||256||512|> |>.<|u64||b32||u32||b8||f32||f64||u16||s8||f16||b128||pred||f16x2||texref||samplerref||surfref||v2 .f32||v4 .b32||u128||bf16|> {_PTR} <|a||b||%a||_||k||a.b|><|||||||[4]||[0]||[]||[2][2]||[-1]||[65536]||[4]<4>|>"
KERNELS = [
    f"<|.entry||.visible .entry||.weak .entry|> k(<|{_P}||{_P}, {_P}||{_P},||,{_P}||{_P} {_P}|>)\n<|||||.maxntid 32|>\n{{\nret;\n}}\n",
    f".entry k(.param .u64 {_PTR} a, .param .align 8 .b8 b[16])\n{{\n.reg .b64 q; .reg .b32 r; .reg .f32 f<4>;\n<|ld.param.u64 q, [a];||ld.param.u64 q, [b+8];||ld.param.v2.b32 {{r, r}}, [b];||ld.param.v4.f32 {{f0, f1, f2, f3}}, [b];||ld.param.b32 r, [a+<|0||4||8||-4||16||1|>];||ld.param.u64 q, [a+<|0||4||1|>];||mov.u64 q, a;||mov.b64 q, b;||cvta.param.u64 q, b;||st.param.b32 [a], r;||ld.param::entry.u64 q, [a];||ld.param::func.u64 q, [a];||ld.param.u64 q, [c];||ld.global.u64 q, [a];||ld.param.u64 q, a;|>\nret;\n}}\n",
    ".entry k()\n<|||.explicitcluster||.maxclusterrank <|8||0||16||17|>||.maxntid <|128||1024||2048|>|>\n<|.reqnctapercluster <|2||2,2||1,1,1||0||9||16,1||2,2,2||8,2||4,4||-1||x|>||.maxclusterrank <|8||4||1|>||.explicitcluster|>\n<|||.reqntid <|128||32,4||1,1||0||1024,2|>||.maxntid 64||.explicitcluster||.blocksareclusters|>\n<|||.blocksareclusters||.minnctapersm 1||.maxnreg <|32||0||256||300|>||.explicitcluster 1|>\n{\nret;\n}\n",
    ".version <|9.0||8.8||8.7|>\n.target <|sm_90||sm_100a||sm_80||sm_120|>\n.address_size 64\n.entry k()\n<|.blocksareclusters||.reqnctapercluster 2|>\n<|.reqntid 32||||.maxntid 32|>\n<|.reqnctapercluster 2||.explicitcluster||||.maxclusterrank 8|>\n{\nret;\n}\n",
]
_G = "<|@p||@!p||@%q||@!%q||@ p||@! p||@!!p||@p.x||@-p||@r||@!r||@1||@0||@_||@zz||@@p||@p,||@(p)||@!(p)||@p @p||@k||@WARP_SZ||@%tid.x||@p0||@pp|>"
GUARDS = [
    f".func f(.param .b32 a)\n{{\nret;\n}}\n.entry k()\n{{\n.reg .pred p, %q, pp<2>; .reg .b32 r; .param .b32 x;\n{_G} <|mov.u32 r, 1;||bra L;||ret;||exit;||call f, (x);||bar.sync 0;||L3: ret;||{{ ret; }}||.reg .b32 z;||st.param.b32 [x], r;||setp.eq.u32 p, r, 1;||trap||;||brx.idx r, T;||mov.u32 r 1;|>\nT: .branchtargets L;\nL:\nret;\n}}\n",
]
WIDER = {
    "targets": TARGETS,
    "pragmas": PRAGMAS,
    "debugging": DEBUGGING,
    "numbers": NUMBERS,
    "scopes": SCOPES,
    "kernels": KERNELS,
    "guards": GUARDS,
}
USUAL = {
    "targets": 0.25,
    "pragmas": 0.35,
    "debugging": 0.55,
    "numbers": 0.4,
    "scopes": 0.4,
    "kernels": 0.55,
    "guards": 0.2,
}
"""How often a choice is the usual alternative."""
