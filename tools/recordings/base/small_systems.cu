// LU with pivots of 8 x 8 systems in f64, one row a lane, then solved by substitution; the determinant's sign by votes.
#include "base.cuh"

KERNEL(small_systems)(const double *matrices, const double *right, double *solution, double *determinant) {
    int system = global_thread() >> 3, row = threadIdx.x & 7, first = threadIdx.x & 24;
    double a[9];
    for (int k = 0; k < 8; k++) a[k] = matrices[(system * 8 + row) * 8 + k];
    a[8] = right[system * 8 + row];
    int place = row;
    double product = 1;
    u32 group = 0xffu << first;
    for (int k = 0; k < 8; k++) {  // the largest entry of the rows that are left becomes the pivot
        double best = place >= k ? fabs(a[k]) : -1;
        int owner = row;
        for (int d = 4; d > 0; d /= 2) {
            double other = __shfl_xor_sync(group, best, d, 8);
            int who = __shfl_xor_sync(group, owner, d, 8);
            if (other > best || (other == best && who < owner)) best = other, owner = who;
        }
        int at = __shfl_sync(group, place, owner, 8);
        if (place == k && row != owner) place = at;
        else if (row == owner) place = k;
        if (at != k) product = -product;
        double pivot[9];
#pragma unroll
        for (int j = 0; j < 9; j++) pivot[j] = __shfl_sync(group, a[j], owner, 8);
        product *= pivot[k];
        if (place > k) {
            double factor = a[k] / pivot[k];
#pragma unroll
            for (int j = 0; j < 9; j++) a[j] = j > k ? a[j] - factor * pivot[j] : a[j];
        }
    }
    for (int k = 7; k >= 0; k--) {
        int owner = __ffs(__ballot_sync(group, place == k) >> first & 255) - 1;
        double x = __shfl_sync(group, a[8] / a[k], owner, 8);
        if (place < k) a[8] -= a[k] * x;
        if (row == k) solution[system * 8 + k] = x;
    }
    if (row == 0) determinant[system] = product;
}
