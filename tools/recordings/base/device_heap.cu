// malloc and free on the device: linked lists of sizes that the data gives, reversed, summed and freed by another thread.
#include "base.cuh"

struct Node { Node *next; int count; int values[1]; };

KERNEL(device_heap)(const int *x, int *out, int n) {
    __shared__ Node *lists[64];
    int i = global_thread(), t = threadIdx.x;
    Node *head = nullptr;
    for (int k = 0; k < 3 + t % 3; k++) {
        int count = 1 + (x[(i + k) % n] & 15);
        Node *node = (Node *)malloc(sizeof(Node) + count * 4);
        if (!node) __trap();
        *node = {head, count};
        for (int j = 0; j < count; j++) node->values[j] = x[(i * 3 + j) % n] + k;
        head = node;
    }
    Node *back = nullptr;
    while (head) {
        Node *next = head->next;
        head->next = back, back = head, head = next;
    }
    lists[t] = back;
    __syncthreads();
    int sum = 0;
    for (Node *at = lists[63 - t]; at;) {
        for (int j = 0; j < at->count; j++) sum = sum * 7 + at->values[j];
        Node *next = at->next;
        free(at);
        at = next;
    }
    out[i] = sum;
    char *words = new char[8]{'w', 'a', 'r', 'p'};
    out[gridDim.x * blockDim.x + i] = words[t & 3] + words[7];
    delete[] words;
    free(nullptr);
}
