// A small machine with bytecode: a switch that becomes a jump table, stacks in local memory, lanes at different programs.
#include "base.cuh"

KERNEL(jump_tables)(const u8 *code, const int *x, int *out, int *steps, int n, int size) {
    int i = global_thread();
    if (i >= n) return;
    int stack[16] = {}, top = 0, at = i % 4 * size, count = 0, a = x[i], b = 1;
    for (bool runs = true; runs && count < 400; count++) {
        u8 op = code[at++];
        switch (op & 15) {
        case 0: runs = false; break;
        case 1: stack[top++ & 15] = a; break;
        case 2: a = stack[--top & 15]; break;
        case 3: a += b; break;
        case 4: b = a - b; break;
        case 5: a = a * 3 + (op >> 4); break;
        case 6: if (a & 1) at += op >> 4; break;
        case 7: b = __clz(a) + (op >> 4); break;
        case 8: a = b ? a / b : 7; break;
        case 9: if (--b > 0 && b < 40) at -= op >> 4; break;
        case 10: a ^= b << (op >> 4); break;
        case 11: a = a >> 1; break;
        case 12: stack[(top - 1) & 15] += a; break;
        case 13: { int c = a; a = b, b = c; break; }
        case 14: a = min(a, b * 16); break;
        default: b = op >> 4;
        }
    }
    out[i] = a ^ b * 31 ^ top << 20, steps[i] = count;
}
