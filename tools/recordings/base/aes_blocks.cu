// AES-128 in counter mode: the substitution box computed into shared memory, round keys by warps, table look-ups by bytes.
#include "base.cuh"

__device__ u8 times(u8 a, u8 b) {
    u8 p = 0;
    for (; b; b >>= 1, a = a << 1 ^ (a & 0x80 ? 0x1b : 0)) p ^= b & 1 ? a : 0;
    return p;
}

KERNEL(aes_blocks)(const u32 *key, const uint4 *text, uint4 *cipher, int n) {
    __shared__ u32 table[256], round_keys[44];
    __shared__ u8 box[256];
    int t = threadIdx.x;
    u8 inverse = 1, power = t;
    for (int e = 254; e; e >>= 1, power = times(power, power))
        if (e & 1) inverse = times(inverse, power);
    u32 twice = inverse | inverse << 8;
    box[t] = inverse ^ twice >> 7 ^ twice >> 6 ^ twice >> 5 ^ twice >> 4 ^ 0x63;
    u8 s = box[t];
    table[t] = times(s, 2) | s << 8 | s << 16 | (u32)times(s, 3) << 24;
    __syncthreads();
    if (t == 0) {
        u8 constant = 1;
        for (int k = 0; k < 44; k++) {
            u32 w = k < 4 ? key[k] : round_keys[k - 1];
            if (k >= 4 && k % 4 == 0) {
                w = __byte_perm(w, 0, 0x0321);
                w = box[w & 255] | box[w >> 8 & 255] << 8 | box[w >> 16 & 255] << 16 | (u32)box[w >> 24] << 24;
                w ^= constant, constant = times(constant, 2);
            }
            round_keys[k] = k < 4 ? w : round_keys[k - 4] ^ w;
        }
    }
    __syncthreads();
    int i = global_thread();
    if (i >= n) return;
    u32 a[4] = {(u32)i ^ round_keys[0], 0x11223344 ^ round_keys[1], 0x55667788 ^ round_keys[2], __byte_perm(i, 0, 0x0123) ^ round_keys[3]};
    for (int r = 1; r < 10; r++) {
        u32 b[4];
#pragma unroll
        for (int c = 0; c < 4; c++)
            b[c] = table[a[c] & 255] ^ rotl(table[a[c + 1 & 3] >> 8 & 255], 8) ^ rotl(table[a[c + 2 & 3] >> 16 & 255], 16) ^ rotl(table[a[c + 3 & 3] >> 24], 24) ^ round_keys[r * 4 + c];
#pragma unroll
        for (int c = 0; c < 4; c++) a[c] = b[c];
    }
    u32 o[4];
#pragma unroll
    for (int c = 0; c < 4; c++)
        o[c] = (box[a[c] & 255] | box[a[c + 1 & 3] >> 8 & 255] << 8 | box[a[c + 2 & 3] >> 16 & 255] << 16 | (u32)box[a[c + 3 & 3] >> 24] << 24) ^ round_keys[40 + c];
    uint4 p = text[i];
    cipher[i] = {p.x ^ o[0], p.y ^ o[1], p.z ^ o[2], p.w ^ o[3]};
}
