/* Functions of the run time that take or give structures by value. */
#include <stddef.h>

typedef struct { void *ptr; size_t pitch, xsize, ysize; } Pitched;
typedef struct { size_t width, height, depth; } Extent;
typedef struct { int x, y, z, w, f; } Channel;

EXPORT int cudaMalloc3D(Pitched *where, Extent size)
{
    return (int)warpsimMalloc3D((u)(uintptr_t)where, size.width, size.height, size.depth);
}

EXPORT int cudaMemset3D(Pitched where, int value, Extent size)
{
    return (int)warpsimMemset3D((u)(uintptr_t)where.ptr, where.pitch, where.ysize, (u)value, size.width, size.height,
                                size.depth, 0);
}

EXPORT int cudaMemset3DAsync(Pitched where, int value, Extent size, void *stream)
{
    return (int)warpsimMemset3D((u)(uintptr_t)where.ptr, where.pitch, where.ysize, (u)value, size.width, size.height,
                                size.depth, (u)(uintptr_t)stream);
}

EXPORT Channel cudaCreateChannelDesc(int x, int y, int z, int w, int f)
{
    Channel made = {x, y, z, w, f};
    return made;
}
