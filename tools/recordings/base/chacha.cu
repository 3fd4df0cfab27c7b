// ChaCha20: four lanes share a block and turn its diagonals by shuffles.
#include "base.cuh"

KERNEL(chacha)(const u32 *key, const u32 *text, u32 *cipher, int blocks) {
    int i = global_thread(), block = i >> 2, lane = i & 3;
    if (block >= blocks) return;
    u32 here = __activemask();
    const u32 words[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    u32 start[4] = {words[lane], key[lane], key[4 + lane], lane == 0 ? block : key[8 + lane - 1]};
    u32 a = start[0], b = start[1], c = start[2], d = start[3];
    auto quarter = [&] {
        a += b, d = __byte_perm(d ^ a, 0, 0x1032);
        c += d, b = rotl(b ^ c, 12);
        a += b, d = __byte_perm(d ^ a, 0, 0x2103);
        c += d, b = rotl(b ^ c, 7);
    };
    auto turn = [&](int k) {
        b = __shfl_sync(here, b, lane + k, 4), c = __shfl_sync(here, c, lane + 2, 4), d = __shfl_sync(here, d, lane - k, 4);
    };
    for (int r = 0; r < 10; r++) quarter(), turn(1), quarter(), turn(-1);
    u32 stream[4] = {a + start[0], b + start[1], c + start[2], d + start[3]};
    for (int k = 0; k < 4; k++) cipher[block * 16 + k * 4 + lane] = text[block * 16 + k * 4 + lane] ^ stream[k];
}
