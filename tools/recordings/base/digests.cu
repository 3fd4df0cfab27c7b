// SHA-256 of messages of different lengths, and a search for a nonce that the smallest lane reports.
#include "base.cuh"

__constant__ u32 K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

KERNEL(digests)(const u8 *messages, u32 *out, u32 *lowest, int n) {
    int i = global_thread();
    if (i >= n) return;
    u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    int length = i % 100, blocks = (length + 9 + 63) / 64;
    for (int block = 0; block < blocks; block++) {
        u32 w[16], v[8];
        for (int k = 0; k < 16; k++) {
            u32 word = 0;
            for (int b = 0; b < 4; b++) {
                int at = block * 64 + k * 4 + b;
                word = word << 8 | (at < length ? messages[i + at] : at == length ? 0x80 : 0);
            }
            w[k] = block == blocks - 1 && k == 15 ? length * 8 : word;
        }
        for (int k = 0; k < 8; k++) v[k] = h[k];
#pragma unroll 16
        for (int k = 0; k < 64; k++) {
            if (k >= 16) {
                u32 a = w[(k + 1) & 15], b = w[(k + 14) & 15];
                w[k & 15] += (rotl(a, 25) ^ rotl(a, 14) ^ a >> 3) + w[(k + 9) & 15] + (rotl(b, 15) ^ rotl(b, 13) ^ b >> 10);
            }
            u32 t = v[7] + (rotl(v[4], 26) ^ rotl(v[4], 21) ^ rotl(v[4], 7)) + (v[4] & v[5] ^ ~v[4] & v[6]) + K[k] + w[k & 15];
            u32 s = (rotl(v[0], 30) ^ rotl(v[0], 19) ^ rotl(v[0], 10)) + (v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2]);
            v[7] = v[6], v[6] = v[5], v[5] = v[4], v[4] = v[3] + t, v[3] = v[2], v[2] = v[1], v[1] = v[0], v[0] = t + s;
        }
        for (int k = 0; k < 8; k++) h[k] += v[k];
    }
    for (int k = 0; k < 8; k++) out[i * 8 + k] = __byte_perm(h[k], 0, 0x0123);
    atomicMin(lowest, h[0]);
}
