/* Functions of the run time that take or give structures by value. */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u;
u warpsimMalloc3D(u where, u width, u height, u depth);
u warpsimMalloc3DArray(u array, u channels, u width, u height, u depth, u flags);
u warpsimMallocMipmappedArray(u array, u channels, u width, u height, u depth, u levels, u flags);
u warpsimMemset3D(u where, u pitch, u rows, u value, u width, u height, u depth, u stream);

typedef struct { void *ptr; size_t pitch, xsize, ysize; } Pitched;
typedef struct { size_t width, height, depth; } Extent;
typedef struct { int x, y, z, w, f; } Channel;

int cudaMalloc3D(Pitched *where, Extent size)
{
    return (int)warpsimMalloc3D((u)(uintptr_t)where, size.width, size.height, size.depth);
}

int cudaMalloc3DArray(void **array, const Channel *channels, Extent size, unsigned flags)
{
    return (int)warpsimMalloc3DArray((u)(uintptr_t)array, (u)(uintptr_t)channels, size.width, size.height, size.depth,
                                     flags);
}

int cudaMallocMipmappedArray(void **array, const Channel *channels, Extent size, unsigned levels, unsigned flags)
{
    return (int)warpsimMallocMipmappedArray((u)(uintptr_t)array, (u)(uintptr_t)channels, size.width, size.height,
                                            size.depth, levels, flags);
}

int cudaMemset3D(Pitched where, int value, Extent size)
{
    return (int)warpsimMemset3D((u)(uintptr_t)where.ptr, where.pitch, where.ysize, (u)value, size.width, size.height,
                                size.depth, 0);
}

int cudaMemset3DAsync(Pitched where, int value, Extent size, void *stream)
{
    return (int)warpsimMemset3D((u)(uintptr_t)where.ptr, where.pitch, where.ysize, (u)value, size.width, size.height,
                                size.depth, (u)(uintptr_t)stream);
}

Channel cudaCreateChannelDesc(int x, int y, int z, int w, int f)
{
    Channel made = {x, y, z, w, f};
    return made;
}
